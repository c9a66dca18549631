"""Files of translations, and the batches made of them."""

import gzip

import numpy as np
import pytest

from tfnlp.data import read_parallel, translation_batches

END = 9


def write(folder, name, lines):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return str(path)


def test_lines_stay_together_and_empty_ones_are_counted(tmp_path):
    english = write(tmp_path, "en", ["one", " two ", "", "four", "  "])
    german = write(tmp_path, "de", ["eins", "zwei", "drei", "", ""])
    more = tmp_path / "more.de.gz"
    more.write_bytes(gzip.compress("fünf\n".encode()))
    text = read_parallel([english, write(tmp_path, "more.en", ["five"])], [german, str(more)])
    assert text.sources == ["one", "two", "five"]
    assert text.targets == ["eins", "zwei", "fünf"]
    assert text.left_out == 3


def test_files_that_do_not_match(tmp_path):
    one, two = write(tmp_path, "en", ["one"]), write(tmp_path, "de", ["eins", "zwei"])
    with pytest.raises(ValueError, match="en has 1 lines and .*de has 2; line n"):
        read_parallel([one], [two])
    with pytest.raises(ValueError, match="1 files of sources and 2 of targets"):
        read_parallel([one], [two, two])
    with pytest.raises(ValueError, match="no sentence in .*empty has a translation"):
        read_parallel([write(tmp_path, "empty", [""])], [one])
    with pytest.raises(FileNotFoundError, match="no such file: .*nothing"):
        read_parallel([str(tmp_path / "nothing")], [one])


def pairs(count, seed=0):
    rng = np.random.default_rng(seed)
    sides = [[rng.integers(1, END, rng.integers(1, 12)) for _ in range(count)] for _ in range(2)]
    return [[ids.astype("int32") for ids in side] for side in sides]


def test_every_pair_is_there_once_an_epoch_as_encoder_and_decoder_read_it():
    sources, targets = pairs(50)
    batches = translation_batches(sources, targets, END, batch_size=8, buckets=3)
    expected = sorted((tuple(s), tuple(t)) for s, t in zip(sources, targets, strict=True))
    seen, lengths = [], set()
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        lengths.add(batch["input_word_ids"].shape[1])
        for row in range(8):
            n, m = (int(batch[name][row].sum()) for name in ("input_mask", "weights"))
            if not m:  # it only fills the batch up
                continue
            read, said = batch["input_word_ids"][row], batch["target_ids"][row]
            assert read[n - 1] == END == said[m - 1] == batch["target_word_ids"][row, 0]
            assert not read[n:].any() and not said[m:].any()
            np.testing.assert_array_equal(batch["target_word_ids"][row, 1:m], said[: m - 1])
            np.testing.assert_array_equal(batch["input_mask"][row], np.arange(len(read)) < n)
            np.testing.assert_array_equal(batch["weights"][row], np.arange(len(said)) < m)
            seen.append((tuple(read[: n - 1]), tuple(said[: m - 1])))
    assert sorted(seen) == expected
    assert 1 < len(lengths) <= 3
