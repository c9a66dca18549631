"""GloVe (Pennington, Socher & Manning 2014) as a family."""

from typing import Any

from tfnlp import models
from tfnlp.checkpoints import Pretrained
from tfnlp.data import CooccurrenceBatches
from tfnlp.data.corpus.cooccurrence import counted_once
from tfnlp.families.preparation import Preparation
from tfnlp.families.word_vectors import CountedText, WordVectors, with_counts
from tfnlp.objectives import GloVe as GloVeObjective
from tfnlp.settings.word_vectors import GloVeSettings

_COMMON = 5.0  # X_ij from which a pair of the held-out text counts


class GloVe(WordVectors):
    """One vector a word, from how often it is near each other word."""

    name, title = "glove", "a GloVe"
    row = ("dimension",)
    encoder = staticmethod(models.glove)

    def prepare(self, settings: GloVeSettings, before: Any, strategy: Any) -> Preparation:
        return _Cooccurrences(settings)

    def finish(self, loaded: Pretrained, path: str) -> None:
        """Make the word vectors `w + w~` from the restored weights."""
        model = loaded.encoder
        tables = model.get_layer("word_embedding").embeddings, model.get_layer("loss").kernel
        with_counts(loaded, sum(table.numpy() for table in tables), path)


class _Cooccurrences(CountedText):
    """The co-occurrence matrix, and the loss of its cells."""

    a_loss = "a pair of words"

    def __init__(self, settings: GloVeSettings) -> None:
        super().__init__(settings)
        cells, held_cells = (
            counted_once(corpus, settings.window, not settings.left_only)
            for corpus in (self.train, self.valid)
        )
        size = settings.batch_size
        self.batches = CooccurrenceBatches(cells, batch_size=size, seed=settings.seed)
        self.measured = CooccurrenceBatches(
            # Rare pairs of a short text say little about how rare they are, and are most of the
            # pairs.
            held_cells.at_least(min(_COMMON, held_cells.values.max())),
            batch_size=size,
            # As if the held-out text were as long as the other: the vectors are learnt for that.
            scale=self.train.num_words / self.valid.num_words,
        )
        self.held_out = self.measured.evaluation_batches(settings.evaluate_batches)
        self.arguments = {
            "vocab_size": len(self.tokens),
            "hidden_size": settings.dimension,
            "x_max": settings.x_max,
            "alpha": settings.alpha,
        }
        self.loss_scale = float(size)  # rows of a table get the sum over their cells
        pairs = f"{self.batches.num_cells:,} pairs of words near each other"
        self.described = self.counted("GloVe", f"{pairs}, {self.batches.steps_per_epoch:,.1f}")

    def objective(self, model: Any) -> GloVeObjective:
        return GloVeObjective(model)
