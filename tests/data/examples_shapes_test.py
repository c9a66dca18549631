"""Prepared examples of every shape beside the batches of the same text in memory."""

import functools

import numpy as np
import pytest

from tests.data.examples_support import (
    SEED,
    WORDS,
    assert_same,
    documents_of,
    write_corpus,
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

VOCABULARY = [*SPECIAL_TOKENS, ".", *WORDS]
MAKER = functools.partial(WordPieceTokenizer, VOCABULARY)
RECIPES = {
    "swapped": PairRecipe(MAKER, "swapped"),
    "following": PairRecipe(MAKER, "following"),
    "windows": MaskedWindowRecipe(MAKER, sep_id=3),
}


def make(recipe, files, output, chunk=600):
    from tfnlp.data.shards.runner import Runner

    settings = {
        "tfnlp": "0", "model": "any", "input": [[name, None] for name in files], "valid": None,
        "layout": "auto", "held_out": 0.05, "seed": SEED, "epochs": 2, "shards": 3, "chunk": chunk,
        "seq_length": 32, "short_seq_prob": 0.1, **recipe.settings,
    }  # fmt: skip
    start_examples(output, settings)
    return make_examples(output, settings, recipe, Runner("DirectRunner", 1, []))


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("chunk", [600, 1 << 20])
def test_batches_are_those_of_the_text(name, chunk, tmp_path):
    files = write_corpus(tmp_path)
    recipe, tokenizer = RECIPES[name], MAKER()
    assert tokenizer.sep_id == 3
    manifest = make(recipe, files, tmp_path / "examples", chunk)
    documents, _ = split_documents(documents_of(files), 0.05, SEED)
    corpus = TokenizedCorpus.build(documents, tokenizer, progress=False)
    arguments = {"batch_size": 4, "max_predictions": 6}
    if name == "windows":
        made = MaskedWindows(corpus, tokenizer, seq_length=32, seed=SEED, **arguments)
        shards = MaskedWindowShards(tmp_path / "examples", tokenizer, **arguments)
    else:
        made = SentencePairs(corpus, tokenizer, seq_length=32, seed=SEED, second=name, **arguments)
        shards = PairShards(tmp_path / "examples", tokenizer, **arguments)
    assert shards.steps_per_epoch == made.steps_per_epoch > 10
    assert shards.dataset().element_spec == made.dataset().element_spec
    for step, batch in zip(range(2 * made.steps_per_epoch), shards.dataset(), strict=False):
        assert_same(batch, made.batch(step))
    counts = manifest["counts"]["train"]
    if name == "swapped":
        assert counts["swapped"] + counts["in_order"] == counts["examples"]
        labels = np.concatenate([made.plan(epoch)[:, 4] for epoch in range(2)])
        assert abs(counts["swapped"] / counts["examples"] - labels.mean()) < 0.05
    else:
        assert "swapped" not in counts
    with pytest.raises(ValueError, match="for any, not windows"):
        WindowShards(tmp_path / "examples", batch_size=4)
