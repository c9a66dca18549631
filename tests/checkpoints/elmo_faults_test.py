"""What is no ELMo is refused in one line, before a model is built."""

import json
import re

import numpy as np
import pytest

import tfnlp.checkpoints.elmo
from tests.checkpoints.elmo_reference import random_arrays, small_options, write
from tests.checkpoints.faults import no_model_of, one_line
from tfnlp.checkpoints import load_elmo
from tfnlp.checkpoints.elmo import read_options

CELL = "RNN_1/RNN/MultiRNNCell/Cell1/LSTMCell"

no_model = no_model_of(tfnlp.checkpoints.elmo, "Pretrained")


def fails(pattern, error=ValueError, path=None, **arguments):
    return one_line(pattern, error, load_elmo, path, **arguments)


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "model", small_options(), random_arrays(small_options()))


@pytest.mark.parametrize(
    "lstm, cnn, key",
    [
        (dict(dim=4), {}, "lstm.dim=4 is not above lstm.projection_dim=4"),
        (dict(cell_clip=-1), {}, "lstm.cell_clip=-1"),
        (dict(proj_clip=10**400), {}, "lstm.proj_clip=1000"),
        ({}, dict(embedding=16), "missing char_cnn.embedding.dim"),
        ({}, dict(n_characters=260), "char_cnn.n_characters=260, expected 262"),
        ({}, dict(max_characters_per_token=25), "max_characters_per_token=25, expected 50"),
        ({}, dict(filters=[[1, 2], [3]]), "char_cnn.filters="),
    ],
)
def test_options_that_make_no_sense(tmp_path, lstm, cnn, key):
    (tmp_path / "options.json").write_text(json.dumps(small_options(lstm, cnn)))
    pattern = f"options.json does not fit ELMo in 1 places: .*{re.escape(key)}"
    one_line(pattern, ValueError, read_options, tmp_path / "options.json")


def test_all_faults_of_the_options_are_listed(tmp_path):
    options, path = small_options({"dim": -7, "cell_clip": "3"}, {"filters": [1]}), tmp_path / "x"
    del options["lstm"]["projection_dim"]
    path.write_text(json.dumps(options))
    message = one_line("in 4 places", ValueError, read_options, path)
    for fault in ("lstm.dim=-7", "lstm.cell_clip='3'", "char_cnn.filters=[1]",
                  "missing lstm.projection_dim"):  # fmt: skip
        assert fault in message


def test_missing_surplus_and_misshapen_are_listed_together(tmp_path, no_model):
    arrays = random_arrays(small_options())
    del arrays["CNN_proj/b_proj"]
    arrays[f"{CELL}/W_P_0"] = np.ascontiguousarray(arrays[f"{CELL}/W_P_0"].T)
    arrays["char_embed"] = np.ones((262, 3), "f4")  # with a row for padding: another format
    arrays["CNN/b_cnn_1"] = np.ones(5, "i8")
    arrays[CELL.replace("Cell1", "Cell2") + "/B"] = np.ones(28, "f4")
    arrays["softmax/W"] = np.ones((9, 3), "f4")
    arrays["softmax/b"] = np.ones(8, "f4")
    message = fails("weights.hdf5 does not fit .* in 7 ten.*sizes from .*options.json",
                    path=write(tmp_path, small_options(), arrays))  # fmt: skip
    for fault in (
        "missing 'CNN_proj/b_proj', expected [4]",
        f"misshapen '{CELL}/W_P_0', found [4, 7], expected [7, 4]",
        "misshapen 'char_embed', found [262, 3], expected [261, 3]",
        "'CNN/b_cnn_1' has dtype int64",
        "surplus 'RNN_1/RNN/MultiRNNCell/Cell2/LSTMCell/B', found [28]",
        "misshapen 'softmax/W', found [9, 3], expected [9, 4]",
        "misshapen 'softmax/b', found [8], expected [9]",
    ):
        assert fault in message


def test_ignored_datasets(tmp_path):
    arrays = random_arrays(small_options())
    arrays |= {"softmax/W": np.ones((9, 4), "f4"), "softmax/b": np.ones(9, "f4")}
    arrays["extra/thing"] = np.ones(2, "f4")
    folder = write(tmp_path, small_options(), arrays)
    fails("surplus 'extra/thing', found", path=folder)
    assert load_elmo(folder, ignore="extra/").pretrainer is not None
    assert load_elmo(folder, ignore=["extra", "softmax/"]).pretrainer is None


@pytest.mark.parametrize(
    "softmax, pattern",
    [
        ({"W": np.zeros((0, 4), "f4")}, "misshapen 'softmax/W'"),
        ({"b": np.ones(9, "f4")}, r"missing 'softmax/W', expected \[9, 4\]"),
    ],
)
def test_softmax_without_words(tmp_path, no_model, softmax, pattern):
    arrays = random_arrays(small_options()) | {f"softmax/{n}": a for n, a in softmax.items()}
    fails(pattern, path=write(tmp_path, small_options(), arrays))


def test_which_files_are_taken(folder, tmp_path):
    (folder / "options.json").rename(folder / "elmo_2x7_options.json")
    (folder / "weights.hdf5").rename(folder / "elmo_2x7_weights.hdf5")
    (folder / "vocab.txt").write_text("the")
    expected = load_elmo(folder).config
    apart = tmp_path / "apart.json"
    (folder / "elmo_2x7_options.json").rename(apart)
    message = fails(r"holds no \*options\*.json", FileNotFoundError, folder)
    assert "['elmo_2x7_weights.hdf5', 'vocab.txt']" in message
    assert load_elmo(folder, options=apart).config == expected
    weights = folder / "elmo_2x7_weights.hdf5"
    assert load_elmo(options=str(apart), weights=str(weights)).config == expected
    (folder / "old_weights.hdf5").write_bytes(b"")
    fails("2 files .*: elmo_2x7_weights.hdf5, old_weights.hdf5; say which",
          path=folder, options=apart)  # fmt: skip
    assert load_elmo(folder, options=apart, weights=weights).config == expected
