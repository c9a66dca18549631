"""Examples made by Beam: batches, counts and held-out text are those of the text in memory."""

import functools
import itertools

import numpy as np
import pytest

from tests.data.examples_support import (
    SEED,
    WORDS,
    arrays,
    assert_same,
    bert_shards,
    contents,
    documents_of,
    features,
    from_text,
    make,
)
from tfnlp.data import (
    MaskedWindows,
    MaskedWindowShards,
    PairShards,
    SentencePairs,
    TokenizedCorpus,
    WindowShards,
    split_documents,
)
from tfnlp.data.shards.examples import make_examples, start_examples
from tfnlp.data.shards.recipes import MaskedWindowRecipe, PairRecipe
from tfnlp.text import SPECIAL_TOKENS, WordPieceTokenizer

pytest.importorskip("apache_beam")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_batches_are_those_of_the_text(model, examples_of, corpus):
    folder, manifest = examples_of(model)
    made, valid = from_text(model, folder, documents_of(corpus, model), batch_size=4)
    shards = bert_shards(folder) if model == "bert" else WindowShards(folder, batch_size=4)
    assert shards.num_examples == (made.rows_per_epoch if model == "gpt" else made.num_examples)
    assert shards.steps_per_epoch == made.steps_per_epoch
    assert shards.dataset().element_spec == made.dataset().element_spec
    total = int(2 * made.steps_per_epoch)
    assert total > 20
    for first, count in ((0, total), (total // 2 - 1, 2)):
        taken = shards.dataset(first).take(count)
        for step, batch in zip(range(first, total), taken, strict=False):
            assert_same(batch, made.batch(step))
    held_out = shards.held_out()
    assert manifest["counts"]["held_out"]["tokens"] == held_out.num_tokens
    if model == "gpt":
        return
    assert shards.random_share == pytest.approx(made.random_share)
    # The held-out text is there as it was tokenized.
    for name in ("tokens", "sentence_starts", "document_starts"):
        np.testing.assert_array_equal(getattr(held_out, name), getattr(valid.corpus, name))
    for arguments in ({"whole_word": True}, {"mask_rate": 0.3}):
        pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=4, **arguments)
        assert_same(bert_shards(folder, **arguments).batch(1), pairs.batch(1))


def test_bert_batches_from_any_step_and_after_the_last_epoch(examples_of, corpus):
    folder, _ = examples_of("bert")
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=5)
    shards = bert_shards(folder, batch_size=5)
    steps = pairs.steps_per_epoch
    for first in (steps - 1, 2 * steps - 1):
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


def test_a_corpus_smaller_than_a_batch_goes_round(examples_of, corpus):
    folder, _ = examples_of("bert")
    pairs, _ = from_text("bert", folder, documents_of(corpus), batch_size=1000)
    sizes = {len(pairs._draw(epoch).order) for epoch in range(2)}
    assert len(sizes) == 2  # so epoch 1 is cut, or goes round, too
    shards = bert_shards(folder, batch_size=1000)
    for step in {0, 2 * pairs.steps_per_epoch - 1}:
        assert_same(shards.batch(step), pairs.batch(step))


@pytest.mark.parametrize("model", ["bert", "gpt"])
def test_counts_are_what_is_there(model, examples_of, corpus):
    folder, manifest = examples_of(model)
    made = from_text(model, folder, documents_of(corpus, model), batch_size=1)
    counts, shards = manifest["counts"], manifest["shards"]
    found = {shard["file"]: features(folder / shard["file"]) for shard in shards}
    assert len(found) == 6 and manifest["finished"] is True
    for shard in shards:
        assert shard["examples"] == len(found[shard["file"]]) > 0
        assert shard["bytes"] == (folder / shard["file"]).stat().st_size
        assert shard["epoch"] == int(shard["file"].split("-")[1])
    assert counts["train"]["examples"] == sum(map(len, found.values()))
    for part, own in zip((counts["train"], counts["held_out"]), made, strict=True):
        if model == "bert":
            for what in ("documents", "sentences", "tokens"):
                assert part[what] == getattr(own.corpus, f"num_{what}")
        else:
            assert part["tokens"] + part["sentences"] + 1 == len(own.stream)
    if model == "bert":
        labels = [e["is_random"][0] for e in itertools.chain(*found.values())]
        assert counts["train"]["random"] == sum(labels) > 10
        assert counts["train"]["real"] == len(labels) - sum(labels) > 10
        assert manifest["commonest_token"] == np.bincount(made[0].corpus.tokens).argmax()
    else:
        everything = documents_of(corpus, "gpt")
        for what, count in (
            ("lines", sum(len(d) for d in everything)),
            ("words", sum(len(line.split()) for d in everything for line in d)),
        ):
            assert counts["train"][what] + counts["held_out"][what] == count
    assert not (folder / "work").exists()


@pytest.mark.long
def test_two_workers_write_the_same_bytes(examples_of, corpus, tmp_path, capfd):
    make("bert", corpus, tmp_path / "two", "--workers", "2")
    assert contents(tmp_path / "two") == contents(examples_of("bert")[0])
    error = capfd.readouterr().err
    assert "tokenizing" in error and "writing shards" in error
    assert "INFO" not in error and "Worker" not in error


def test_own_held_out_text(examples_of, corpus, tmp_path):
    vocabulary = examples_of("bert")[0] / "vocab.txt"
    make("bert", corpus[1:2], tmp_path / "x", "--valid", corpus[0], "--vocab", str(vocabulary))
    train, valid = documents_of(corpus[1:2]), documents_of(corpus[:1])
    made, held = from_text("bert", tmp_path / "x", train, valid, batch_size=4)
    shards = bert_shards(tmp_path / "x")
    np.testing.assert_array_equal(shards.held_out().tokens, held.corpus.tokens)
    for step in (0, 3):
        assert_same(shards.batch(step), made.batch(step))


VOCABULARY = [*SPECIAL_TOKENS, ".", *WORDS]
MAKER = functools.partial(WordPieceTokenizer, VOCABULARY)
RECIPES = {
    "swapped": PairRecipe(MAKER, "swapped"),
    "following": PairRecipe(MAKER, "following"),
    "windows": MaskedWindowRecipe(MAKER, sep_id=3),
}


def make_of(recipe, corpus, output):
    from tfnlp.data.shards.runner import Runner

    settings = {
        "tfnlp": "0", "model": "any", "input": [[name, None] for name in corpus], "valid": None,
        "layout": "auto", "held_out": 0.05, "seed": SEED, "epochs": 2, "shards": 3, "chunk": 600,
        "seq_length": 32, "short_seq_prob": 0.1, **recipe.settings,
    }  # fmt: skip
    start_examples(output, settings)
    return make_examples(output, settings, recipe, Runner("DirectRunner", 1, []))


@pytest.mark.parametrize("name", RECIPES)
def test_batches_of_every_shape_are_those_of_the_text(name, corpus, tmp_path):
    recipe, tokenizer = RECIPES[name], MAKER()
    manifest = make_of(recipe, corpus, tmp_path / "examples")
    documents, _ = split_documents(documents_of(corpus), 0.05, SEED)
    text = TokenizedCorpus.build(documents, tokenizer, progress=False)
    arguments = {"batch_size": 4, "max_predictions": 6}
    if name == "windows":
        made = MaskedWindows(text, tokenizer, seq_length=32, seed=SEED, **arguments)
        shards = MaskedWindowShards(tmp_path / "examples", tokenizer, **arguments)
    else:
        made = SentencePairs(text, tokenizer, seq_length=32, seed=SEED, second=name, **arguments)
        shards = PairShards(tmp_path / "examples", tokenizer, **arguments)
    assert shards.steps_per_epoch == made.steps_per_epoch > 10
    assert shards.dataset().element_spec == made.dataset().element_spec
    for step, batch in zip(range(made.steps_per_epoch + 2), shards.dataset(), strict=False):
        assert_same(batch, made.batch(step))
    counts = manifest["counts"]["train"]
    if name == "swapped":
        assert counts["swapped"] + counts["in_order"] == counts["examples"]
        labels = np.concatenate([made.plan(epoch)[:, 4] for epoch in range(2)])
        assert abs(counts["swapped"] / counts["examples"] - labels.mean()) < 0.05
    else:
        assert "swapped" not in counts
