"""Texts that are too large for memory: the same batches, from mapped files that are kept."""

import os
import tracemalloc

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.data import SentencePairs, TokenizedCorpus, split_documents
from tfnlp.data.corpus import arrays, cache, stored_documents
from tfnlp.data.corpus.documents import read_documents
from tfnlp.data.corpus.sentences import Continued
from tfnlp.data.corpus.stored_documents import StoredDocuments, StoredText
from tfnlp.data.pretraining import sentence_pairs, word_blocks
from tfnlp.families import FAMILIES
from tfnlp.text import WordPieceTokenizer

WORDS = [a + b for a in ("ba", "co", "di", "fu", "ge", "hy") for b in ("l", "mer", "nst", "p", "t")]


@pytest.fixture
def text(tmp_path):
    """A file of prose, 60 documents of 1 to 5 paragraphs."""
    rng, path = np.random.default_rng(7), tmp_path / "text.txt"
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(60):
            for _ in range(rng.integers(1, 6)):
                for _ in range(rng.integers(1, 7)):
                    words = rng.choice(WORDS, rng.integers(3, 12))
                    file.write(" ".join(words).capitalize() + ". ")
                file.write("\n\n")
            file.write("\n")
    return path


@pytest.fixture
def on_disk(tmp_path, monkeypatch):
    """Even the smallest text counts as large, and everything is done in small parts."""
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(stored_documents, "SMALL", 0)
    monkeypatch.setattr(stored_documents, "_PIECE", 3)
    monkeypatch.setattr(arrays, "_IN_MEMORY", 100)
    monkeypatch.setattr(sentence_pairs, "_BLOCK", 5)
    monkeypatch.setattr(word_blocks, "_SENTENCES", 7)


SETTINGS = {
    "bert": {"size": "tiny", "vocab_size": 150, "seq_length": 32, "batch_size": 8},
    "gpt": {"size": "mini", "vocab_size": 300, "seq_length": 32, "batch_size": 8},
    "elmo": {"batch_size": 4, "window": 10, "reset": "document", "tokenize": True},
    "nnlm": {"batch_size": 16, "max_vocab": 40},
    "word2vec": {"batch_size": 4, "block": 8, "min_count": 3, "lowercase": True},
}
# What config.json says of this text: a run that was started with it goes on.
CORPORA = {
    "bert": {"tokens": 4813, "crc32": 847695968},
    "gpt": {"tokens": 7420, "crc32": 2595580787},
    "elmo": {"tokens": 5399, "crc32": 3865186655},
    "nnlm": {"tokens": 5142, "crc32": 3190721757},
    "word2vec": {"words": 4214, "crc32": 3385401933},
}


def prepare(family, text, **more):
    of = FAMILIES[family]
    config = of.settings.make(
        text=str(text), output=str(text.parent / "run"), seed=3, **SETTINGS[family], **more
    )
    prepared = of.prepare(of.settle(config, None), None, tf.distribute.get_strategy())
    epoch = int(prepared.batches.steps_per_epoch)
    batches = [prepared.batches.batch(step) for step in (0, epoch - 1, epoch, 2 * epoch + 1)]
    batches += list(prepared.held_out)[:3]
    values = [{n: np.asarray(v) for n, v in batch.items()} for batch in batches]
    return prepared.corpus, prepared.tokens, values


def assert_same(one, other):
    assert one[:2] == other[:2]
    for left, right in zip(one[2], other[2], strict=True):
        assert left.keys() == right.keys()
        for name in left:
            assert left[name].dtype == right[name].dtype
            np.testing.assert_array_equal(left[name], right[name], err_msg=name)


@pytest.mark.parametrize(
    "family",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("bert", "gpt") else ())
        for name in SETTINGS
    ],
)
def test_batches_are_those_of_texts_in_memory(family, text, request, capsys):
    more = {"valid": str(text)} if family in ("gpt", "nnlm") else {}
    expected = prepare(family, text, **more)
    assert expected[0] == CORPORA[family]
    request.getfixturevalue("on_disk")
    assert_same(prepare(family, text, **more), expected)
    capsys.readouterr()
    # The second start reads nothing.
    assert_same(prepare(family, text, **more), expected)
    shown = capsys.readouterr().err
    assert "kept in" in shown and "reading" not in shown and "building" not in shown


def test_a_changed_text_is_read_again(text, on_disk):
    first = prepare("word2vec", text)
    stat, lines = os.stat(text), text.read_text(encoding="utf-8")
    text.write_text(lines.replace("bal", "bap"), encoding="utf-8")
    os.utime(text, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert os.stat(text).st_size == stat.st_size
    changed = prepare("word2vec", text)
    assert changed[0] != first[0]
    text.write_text(lines, encoding="utf-8")
    assert_same(prepare("word2vec", text), first)


def test_stored_documents_are_those_of_the_files(text, on_disk):
    def joined(pieces):
        documents = []
        for piece in pieces:
            if isinstance(piece, Continued):
                documents[-1] += piece
            else:
                documents.append(list(piece))
        return documents

    prose = text.read_text(encoding="utf-8")
    layouts = {
        "prose": prose,
        "lines": prose.replace(". ", ".\n"),
        "words": prose.replace(". ", "\n\n").replace(" ", "\n"),
    }
    for layout, contents in layouts.items():
        text.write_text(contents, encoding="utf-8")
        documents = list(read_documents(text, layout))
        stored = StoredDocuments(StoredText(text, layout))
        assert joined(stored) == documents
        assert max(map(len, stored)) <= 3 < max(map(len, documents))
        parts = split_documents(documents, 0.1, 5)
        for part, expected in zip(stored.split(0.1, 5), parts, strict=True):
            assert joined(part.map(str.upper)) == [[s.upper() for s in d] for d in expected]


def test_a_single_document_is_cut(tmp_path, on_disk):
    path = tmp_path / "one.txt"
    path.write_text("".join(f"Sentence {i}.\n" for i in range(50)), encoding="utf-8")
    parts = StoredDocuments(StoredText(path, "lines")).split(0.2, 0)
    expected = split_documents(list(read_documents(path, "lines")), 0.2, 0)
    for part, (document,) in zip(parts, expected, strict=True):
        assert [s for piece in part for s in piece] == document


def test_a_text_that_changes_while_it_is_read(text, on_disk):
    stored = StoredText(text)
    with open(text, "a", encoding="utf-8") as file:
        file.write("More.\n")
    with pytest.raises(ValueError, match="text.txt"):
        list(StoredDocuments(stored))


def entries():
    return sorted(os.listdir(cache.cache_folder()))


def write(folder, value):
    grown = arrays.ArrayFolder(folder)
    grown.append("values", [value], np.int32)
    grown.finish()


def value(folder):
    return int(arrays.read_arrays(folder)["values"][0])


def test_an_entry_is_complete_or_absent(on_disk):
    def fail(folder):
        write(folder, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.cached("key", fail, value)
    assert entries() == []

    def slower(folder):
        assert cache.cached("key", lambda other: write(other, 2), value) == 2
        write(folder, 3)

    assert cache.cached("key", slower, value) == 2  # the other one was there first
    assert entries() == ["key"]
    with open(os.path.join(cache.cache_folder(), "key", "values.bin"), "ab") as file:
        file.write(b"more")
    assert cache.cached("key", lambda folder: write(folder, 4), value) == 4


def test_old_entries_are_deleted(on_disk):
    for name, days in (("unused", 31), ("used", 29), ("partial-killed", 2), ("partial-new", 0)):
        path = os.path.join(cache.cache_folder(), name)
        os.mkdir(path)
        then = os.stat(path).st_mtime - days * 24 * 3600
        os.utime(path, (then, then))
    cache.cached("key", lambda folder: write(folder, 1), value)
    assert entries() == ["key", "partial-new", "used"]


def test_a_cache_that_can_not_be_written(tmp_path, monkeypatch, text, on_disk):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="TFNLP_CACHE"):
        prepare("word2vec", text)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_text(tmp_path, monkeypatch):
    monkeypatch.setenv("TFNLP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(arrays, "_IN_MEMORY", 1 << 16)
    monkeypatch.setattr(arrays, "CHUNK", 1 << 14)
    monkeypatch.setattr(sentence_pairs, "_BLOCK", 1000)
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS])
    sentences = [" ".join(np.random.default_rng(i).choice(WORDS, 50)) for i in range(100)]

    def peak(count):
        folder = tmp_path / str(count)
        folder.mkdir()
        tracemalloc.start()
        documents = (sentences for _ in range(count))
        corpus = TokenizedCorpus.build(documents, tokenizer, False, str(folder))
        SentencePairs(corpus, tokenizer, batch_size=8, max_predictions=20).batch(0)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (folder / "tokens.bin").stat().st_size == 2 * corpus.num_tokens
        return found

    peak(2)  # what is made once
    # Two threads tokenize: peaks of the same text were seen to differ by 0.3 to 0.7 MB.
    growth = peak(1100) - peak(100)
    assert growth / (1000 * 5000) < 0.5  # bytes a token; an array in memory has 2 or more
