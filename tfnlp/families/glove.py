"""GloVe (Pennington, Socher & Manning 2014) as a family."""

import os
from typing import Any

from tfnlp import models, text
from tfnlp.checkpoints import Pretrained
from tfnlp.data import CooccurrenceBatches
from tfnlp.data.corpus.arrays import int32_checksum
from tfnlp.data.corpus.cooccurrence import counted_once
from tfnlp.families.preparation import Preparation
from tfnlp.families.vocabularies import FREQUENT_WORDS
from tfnlp.families.word_vectors import COUNTS, WordVectors, read_corpora, read_counts
from tfnlp.objectives import GloVe as GloVeObjective
from tfnlp.settings.word_vectors import GloVeSettings

_COMMON = 5.0  # X_ij from which a pair of the held-out text counts


class GloVe(WordVectors):
    """One vector a word, from how often it is near each other word."""

    name, title = "glove", "a GloVe"
    row = ("dimension",)
    encoder = staticmethod(models.glove)

    def prepare(self, settings: GloVeSettings, before: Any, strategy: Any) -> Preparation:
        """Return the co-occurrence matrix."""
        return _Cooccurrences(settings)

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        """Return the GloVe of a run; `finish` makes its vectors."""
        model, _ = self.build(run["arguments"], {}, dtype)
        words = FREQUENT_WORDS.read(os.path.join(path, FREQUENT_WORDS.name))
        return Pretrained(model, None, run["arguments"], words=words)

    def finish(self, loaded: Pretrained, path: str) -> None:
        """Make the word vectors `w + w~` from the restored weights."""
        model = loaded.encoder
        tables = model.get_layer("word_embedding").embeddings, model.get_layer("loss").kernel
        vectors = sum(table.numpy() for table in tables)
        loaded.word_vectors = text.WordVectors(loaded.words, vectors, read_counts(path))


class _Cooccurrences(Preparation):
    """The co-occurrence matrix, and the loss of its cells."""

    vocabulary = FREQUENT_WORDS
    text = {}

    def __init__(self, settings: GloVeSettings) -> None:
        self.tokens, train, valid = read_corpora(settings)
        cells, held_cells = (
            counted_once(corpus, settings.window, not settings.left_only)
            for corpus in (train, valid)
        )
        size = settings.batch_size
        self.batches = CooccurrenceBatches(cells, batch_size=size, seed=settings.seed)
        self._valid = CooccurrenceBatches(
            # Rare pairs of a short text say little about how rare they are, and are most of the
            # pairs.
            held_cells.at_least(min(_COMMON, held_cells.values.max())),
            batch_size=size,
            # As if the held-out text were as long as the other: the vectors are learnt for that.
            scale=train.num_words / valid.num_words,
        )
        self.held_out = self._valid.evaluation_batches(settings.evaluate_batches)
        self.arguments = {
            "vocab_size": len(self.tokens),
            "hidden_size": settings.dimension,
            "x_max": settings.x_max,
            "alpha": settings.alpha,
        }
        self.corpus = {"words": train.num_words, "crc32": int32_checksum(train.ids)}
        self.files = {COUNTS: train.counts}
        self.loss_scale = float(size)  # rows of a table get the sum over their cells
        self._described = (
            f"GloVe of {len(self.tokens):,} words x {settings.dimension}; {train.num_words:,} "
            f"words of {train.num_sentences:,} sentences, {train.unknown:,} rare ones left out; "
            f"{self.batches.num_cells:,} pairs of words near each other, "
            f"{self.batches.steps_per_epoch:,.1f} updates an epoch; held out: "
            f"{valid.num_words:,} words"
        )

    def objective(self, model: Any) -> GloVeObjective:
        """Return the weighted squares of the cells."""
        return GloVeObjective(model)

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
        """Return sizes of vocabulary, text and matrix."""
        return self._described

    def measure(self, trainer: Any) -> dict[str, float]:
        """Return the loss of the whole held-out text."""
        return trainer.evaluate(self._valid.evaluation_batches())

    def line(self, when: str, results: dict[str, float]) -> str:
        """Return the loss."""
        return f"held out, {when}: {results['loss']:.4f} a pair of words"
