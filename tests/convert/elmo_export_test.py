"""What can't be written as an ELMo is refused, and a failure leaves nothing behind."""

import os
import pathlib

import h5py
import keras
import pytest

from tests.convert.faults import one_line
from tfnlp.convert import load_elmo, save_elmo
from tfnlp.models import elmo, elmo_lstm, elmo_pretrainer


def tiny(**changes):
    arguments = dict(
        num_layers=1, units=6, projection_size=3, embedding_size=2, filters=((1, 4),),
        num_highway=1,
    )  # fmt: skip
    return elmo(**{**arguments, **changes})


def refuses(pattern, error, *arguments, **keywords):
    one_line(pattern, error, save_elmo, *arguments, **keywords)


def test_models_without_a_place_in_the_format(tmp_path):
    encoder = tiny()
    pretrainer = elmo_pretrainer(encoder, 5)
    target = tmp_path / "out"
    for other in (elmo_lstm(encoder), pretrainer, keras.Sequential(name="s")):
        refuses(f"encoder '{other.name}' is not an ELMo", ValueError, target, other)
    refuses("num_characters=300, expected 262", ValueError, target, tiny(num_characters=300))
    refuses("units=3, expected more than projection_size=3", ValueError, target, tiny(units=3))
    for other in (encoder, elmo_pretrainer(tiny(), 5)):
        refuses(
            f"pretrainer '{other.name}' was not made by .* on this encoder",
            ValueError, target, encoder, other,
        )  # fmt: skip
    assert not os.listdir(tmp_path)


def test_what_may_be_replaced(tmp_path):
    encoder = tiny()
    target = tmp_path / "out"
    target.mkdir()
    save_elmo(target, encoder)
    before = (target / "weights.hdf5").read_bytes()
    refuses(r"out holds \['options.json', 'weights.hdf5'\]", FileExistsError, target, tiny())
    assert (target / "weights.hdf5").read_bytes() == before
    save_elmo(target, tiny(units=8), overwrite=True)
    assert load_elmo(target).config["units"] == 8
    (target / "vocab.txt").write_text("mine")
    refuses(r"exists and holds \['vocab.txt'\]", FileExistsError, target, encoder, overwrite=True)
    refuses("exists; choose", FileExistsError, target / "vocab.txt", encoder, overwrite=True)
    assert os.listdir(tmp_path) == ["out"]
    assert sorted(os.listdir(target)) == ["options.json", "vocab.txt", "weights.hdf5"]


@pytest.mark.parametrize("failing", ["create_dataset", "rename"])
def test_nothing_half_written_stays(tmp_path, monkeypatch, failing):
    target = tmp_path / "out"
    save_elmo(target, tiny())
    before = {f.name: f.read_bytes() for f in target.iterdir()}
    calls = []

    def fail_at(count, real):
        def call(*arguments, **keywords):
            calls.append(arguments)
            if len(calls) == count:
                raise OSError("No space left on device")
            return real(*arguments, **keywords)

        return call

    if failing == "create_dataset":
        monkeypatch.setattr(h5py.File, failing, fail_at(3, h5py.File.create_dataset))
    else:
        monkeypatch.setattr(os, failing, fail_at(2, os.rename))
    refuses("out can.t be written: No space left", OSError, target, tiny(), overwrite=True)
    assert len(calls) >= 2
    assert os.listdir(tmp_path) == ["out"]
    assert {f.name: f.read_bytes() for f in target.iterdir()} == before


def test_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    refuses("can.t be written", OSError, pathlib.Path(tmp_path / "file" / "out"), tiny())
