"""Examples from Beam's pipeline beside those that are made of the text in memory."""

import itertools

import numpy as np
import pytest

from tests.data.examples_support import (
    SEED,
    arrays,
    assert_same,
    contents,
    documents_of,
    features,
    from_text,
    make,
    write_corpus,
)
from tfnlp.data import SentencePairs
from tfnlp.data.shards.batches import PairShards, WindowShards
from tfnlp.text import WordPieceTokenizer, read_vocabulary

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module", autouse=True)
def small_pieces():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tfnlp.runs.examples.CHUNK", 600)
        yield


@pytest.fixture(scope="module")
def bert(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("bert") / "examples"
    return folder, make("bert", corpus, folder)


@pytest.fixture(scope="module")
def gpt(tmp_path_factory, corpus):
    folder = tmp_path_factory.mktemp("gpt") / "examples"
    return folder, make("gpt", corpus, folder)


def bert_shards(folder, **arguments):
    tokenizer = WordPieceTokenizer(read_vocabulary(folder / "vocab.txt"))
    return PairShards(folder, tokenizer, **{"max_predictions": 6, **arguments})


@pytest.mark.parametrize("arguments", [{}, {"whole_word": True}, {"mask_rate": 0.3}])
def test_bert_batches_are_those_of_the_text(bert, corpus, arguments):
    folder, manifest = bert
    arguments = {"batch_size": 4, **arguments}
    pairs, valid = from_text("bert", folder, documents_of(corpus), **arguments)
    shards = bert_shards(folder, **arguments)
    assert shards.num_examples == pairs.num_examples
    assert shards.steps_per_epoch == pairs.steps_per_epoch
    assert shards.random_share == pytest.approx(pairs.random_share)
    assert shards.dataset().element_spec == pairs.dataset().element_spec
    total = 2 * pairs.steps_per_epoch
    assert total > 30
    for step, batch in zip(range(total), shards.dataset(), strict=False):
        assert_same(batch, pairs.batch(step))
    # The held-out text is there as it was tokenized.
    held_out = shards.held_out()
    for name in ("tokens", "sentence_starts", "document_starts"):
        np.testing.assert_array_equal(getattr(held_out, name), getattr(valid.corpus, name))
    again = SentencePairs(
        held_out, shards.tokenizer, seq_length=32, max_predictions=6, seed=SEED + 1,
        **arguments,
    )  # fmt: skip
    assert_same(again.batch(1), valid.batch(1))


def test_bert_batches_from_any_step_and_after_the_last_epoch(bert, corpus):
    folder, _ = bert
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=5)
    shards = bert_shards(folder, batch_size=5)
    steps = pairs.steps_per_epoch
    for first in (1, steps // 2, steps - 1, steps, steps + 7, 2 * steps - 1):
        for step, batch in zip(range(first, first + 3), shards.dataset(first), strict=False):
            if step < 2 * steps:
                assert_same(batch, pairs.batch(step))
            else:  # the first epoch comes again, with other masks
                assert_same(shards.batch(step), batch)
                before, now = arrays(shards.batch(step - 2 * steps)), arrays(batch)
                for name in ("input_mask", "next_sentence_labels", "input_type_ids"):
                    np.testing.assert_array_equal(before[name], now[name])
                assert (before["masked_lm_positions"] != now["masked_lm_positions"]).any()
    assert len(list(shards.evaluation_batches(3))) == 3
    assert_same(next(iter(shards.evaluation_batches(1))), pairs.batch(0))


@pytest.mark.parametrize("batch_size", [1000, 3])
def test_a_corpus_smaller_than_a_batch_goes_round(bert, corpus, batch_size):
    folder, _ = bert
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=batch_size)
    sizes = {len(pairs._draw(epoch).order) for epoch in range(2)}
    assert len(sizes) == 2  # so epoch 1 is cut, or goes round, too
    shards = bert_shards(folder, batch_size=batch_size)
    last = 2 * pairs.steps_per_epoch
    for step in {0, 1, last - 1}:
        assert_same(shards.batch(step), pairs.batch(step))


def test_gpt_batches_are_those_of_the_text(gpt, corpus):
    folder, manifest = gpt
    windows, valid = from_text("gpt", folder, documents_of(corpus, "gpt"), batch_size=4)
    shards = WindowShards(folder, batch_size=4)
    assert shards.windows_per_epoch == windows.windows_per_epoch
    assert shards.steps_per_epoch == windows.steps_per_epoch
    assert shards.dataset().element_spec == windows.dataset().element_spec
    total = int(2 * windows.steps_per_epoch)
    assert total > 20
    for step, batch in zip(range(total), shards.dataset(), strict=False):
        assert_same(batch, windows.batch(step))
    for first in (1, total // 2 - 1, total // 2, total - 2):
        for step, batch in zip(range(first, total), shards.dataset(first).take(2), strict=False):
            assert_same(batch, windows.batch(step))
    np.testing.assert_array_equal(shards.batch(2)["targets"], windows.batch(2)["targets"])
    assert manifest["counts"]["held_out"]["tokens"] == shards.held_out().num_tokens


def test_counts_are_what_is_there(bert, gpt, corpus):
    for model, (folder, manifest) in (("bert", bert), ("gpt", gpt)):
        pairs, valid = from_text(model, folder, documents_of(corpus, model), batch_size=1)
        counts, shards = manifest["counts"], manifest["shards"]
        found = {shard["file"]: features(folder / shard["file"]) for shard in shards}
        assert len(found) == 6 and manifest["finished"] is True
        for shard in shards:
            assert shard["examples"] == len(found[shard["file"]]) > 0
            assert shard["bytes"] == (folder / shard["file"]).stat().st_size
            assert shard["epoch"] == int(shard["file"].split("-")[1])
        assert counts["train"]["examples"] == sum(map(len, found.values()))
        if model == "bert":
            labels = [e["is_random"][0] for e in itertools.chain(*found.values())]
            assert counts["train"]["random"] == sum(labels) > 10
            assert counts["train"]["real"] == len(labels) - sum(labels) > 10
            for part, made in (("train", pairs), ("held_out", valid)):
                for what in ("documents", "sentences", "tokens"):
                    assert counts[part][what] == getattr(made.corpus, f"num_{what}")
            commonest = np.bincount(pairs.corpus.tokens).argmax()
            assert manifest["commonest_token"] == commonest
        else:
            for part, made in (("train", pairs), ("held_out", valid)):
                own = counts[part]
                assert own["tokens"] + own["sentences"] + 1 == len(made.stream)
            everything = documents_of(corpus, "gpt")
            for what, count in (
                ("lines", sum(len(d) for d in everything)),
                ("words", sum(len(line.split()) for d in everything for line in d)),
            ):
                assert counts["train"][what] + counts["held_out"][what] == count
        assert not (folder / "work").exists()
        settings = manifest["settings"]
        assert (settings["model"], settings["seed"], settings["epochs"]) == (model, SEED, 2)
        assert [name for name, _ in settings["input"]] == corpus


def test_two_workers_write_the_same_bytes(bert, corpus, tmp_path, capfd):
    folder, _ = bert
    make("bert", corpus, tmp_path / "two", "--workers", "2")
    assert contents(tmp_path / "two") == contents(folder)
    error = capfd.readouterr().err
    assert "tokenizing" in error and "writing shards" in error
    assert "INFO" not in error and "Worker" not in error


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_own_held_out_text(model, bert, gpt, corpus, tmp_path):
    folder, _ = {"bert": bert, "gpt": gpt}[model]
    vocabulary = folder / ("vocab.txt" if model == "bert" else "vocab")
    make(model, corpus[1:2], tmp_path / "x", "--valid", corpus[0], "--vocab", str(vocabulary))
    train, valid = documents_of(corpus[1:2], model), documents_of(corpus[:1], model)
    made, held = from_text(model, folder, train, valid, batch_size=4)
    if model == "bert":
        shards = bert_shards(tmp_path / "x", batch_size=4)
        np.testing.assert_array_equal(shards.held_out().tokens, held.corpus.tokens)
    else:
        shards = WindowShards(tmp_path / "x", batch_size=4)
    for step in (0, 3):
        assert_same(shards.batch(step), made.batch(step))


@pytest.mark.filterwarnings("ignore:the corpus is one document")
@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_a_single_document_is_cut(model, corpus, tmp_path):
    lines = [line for document in documents_of(corpus[:1]) for line in document]
    (tmp_path / "one.txt").write_text("\n".join(lines))
    files = [str(tmp_path / "one.txt")]
    flags = ("--layout", "lines", "--held-out", "0.2", "--epochs", "1")
    manifest = make(model, files, tmp_path / "x", *flags)
    made, held = from_text(model, tmp_path / "x", [lines], held_out=0.2, batch_size=4)
    counts = manifest["counts"]
    assert counts["train"]["lines"] + counts["held_out"]["lines"] == len(lines)
    if model == "bert":
        shards = bert_shards(tmp_path / "x", batch_size=4)
        assert counts["train"]["tokens"] == made.corpus.num_tokens
        np.testing.assert_array_equal(shards.held_out().tokens, held.corpus.tokens)
    else:
        shards = WindowShards(tmp_path / "x", batch_size=4)
    for step in (0, 4):
        assert_same(shards.batch(step), made.batch(step))
