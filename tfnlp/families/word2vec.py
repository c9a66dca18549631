"""word2vec (Mikolov et al. 2013) and fastText (Bojanowski et al. 2017) as a family."""

from typing import Any

import numpy as np

from tfnlp import models, text
from tfnlp.checkpoints import Pretrained
from tfnlp.data import WordBlocks
from tfnlp.families.checked import whole_number
from tfnlp.families.preparation import Preparation
from tfnlp.families.word_vectors import CountedText, WordVectors, loss_arguments, with_counts
from tfnlp.objectives import Word2Vec as Word2VecObjective
from tfnlp.settings.word_vectors import Word2VecSettings

# Defaults by architecture.
RECIPES = {
    "skipgram": {"samples": 16, "learning_rate": 0.3},
    "cbow": {"samples": 32, "learning_rate": 0.6},
}


class Word2Vec(WordVectors):
    """One vector a word, from the words around it."""

    name, title = "word2vec", "word vectors"
    row = ("block", "dimension")
    encoder = staticmethod(models.word2vec)

    @property
    def short_title(self) -> str:
        """The title, which has no article."""
        return self.title

    def settle(self, settings: Word2VecSettings, before: Any) -> Word2VecSettings:
        """Return the settings with what suits the architecture.

        A mean costs fewer products than its words one by one, so that more negatives cost little.
        """
        recipe = RECIPES[settings.architecture]
        missing = {k: x for k, x in recipe.items() if getattr(settings, k) is None}
        return settings.replace(**missing)

    def prepare(self, settings: Word2VecSettings, before: Any, strategy: Any) -> Preparation:
        return _Blocks(settings)

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        if run["arguments"].get("buckets") is not None:
            for where in ("text.min_n", "text.max_n", "arguments.most_subwords"):
                whole_number(path, run, where)
        return super().restore(path, run, dtype)

    def finish(self, loaded: Pretrained, path: str) -> None:
        words, table = loaded.words, loaded.encoder.get_layer("word_embedding").embeddings.numpy()
        if loaded.config.get("buckets") is None:
            return with_counts(loaded, table, path)
        own, rest = table[: len(words)], table[len(words) :]
        sizes = loaded.run["text"]
        subwords = text.Subwords(rest, sizes["min_n"], sizes["max_n"])
        return with_counts(loaded, subwords.vectors(words, own), path, subwords)


class _Blocks(CountedText):
    """Blocks of text, and the loss of their words."""

    a_loss = "a pair"

    def __init__(self, settings: Word2VecSettings) -> None:
        if not settings.subwords:
            settings.refuse(("min_n", "max_n", "buckets"), "needs `subwords`; leave it out")
        if settings.loss == "hierarchical":
            why = "is not for `loss` hierarchical; leave it out"
            settings.refuse(("negatives", "samples"), why)
        super().__init__(settings)
        counts = self.train.counts
        sizes = dict(
            batch_size=settings.batch_size,
            block=settings.block,
            window=settings.window,
            samples=settings.samples,
            sample=settings.sample,
            counts=counts,
            seed=settings.seed,
        )
        self.batches = WordBlocks(self.train, **sizes)
        self.measured = WordBlocks(self.valid, **sizes)
        self.held_out = self.measured.evaluation_batches(settings.evaluate_batches)
        self._subwords = _subwords(settings, self.tokens)
        self.arguments = {
            "vocab_size": len(self.tokens),
            "hidden_size": settings.dimension,
            "architecture": settings.architecture,
            "window": settings.window,
            "negatives": settings.negatives,
            "samples": settings.samples,
            "block": settings.block,
        }
        if self._subwords is not None:
            most = int(np.diff(self._subwords[1]).max())
            self.arguments.update(buckets=settings.buckets, most_subwords=most)
            self.text = {"min_n": settings.min_n, "max_n": settings.max_n}
        self.arguments.update(loss_arguments(settings.loss, "negative", counts))
        # About the pairs in a batch: rows of a table then get the sum over their pairs.
        pairs = settings.window + 1 if settings.architecture == "skipgram" else 1  # of a word
        self.loss_scale = float(settings.batch_size * settings.block * pairs)
        kind = settings.architecture
        if settings.loss != "negative":
            kind += f", {settings.loss}"
        self.described = self.counted(f"word2vec ({kind})", f"{self.batches.steps_per_epoch:,}")

    def objective(self, model: Any) -> Word2VecObjective:
        return Word2VecObjective(model, self.batches.words_per_block)

    def fill(self, encoder: Any, trained: Any) -> None:
        if self._subwords is not None:
            trained.get_layer("word_embedding").set_subwords(*self._subwords)
        if self.settings.loss != "negative":
            trained.get_layer("loss").set_counts(self.train.counts)


def _subwords(settings: Word2VecSettings, words: list[str]) -> tuple[Any, Any] | None:
    """Return rows of the n-grams of all words and where each word's begin, or None."""
    if not settings.subwords:
        return None
    if settings.min_n > settings.max_n:
        raise ValueError(f"`min_n` {settings.min_n} must be at most `max_n` {settings.max_n}")
    rows, splits = text.subword_rows(words, settings.min_n, settings.max_n, settings.buckets)
    if not len(rows):
        raise ValueError(f"no word has n-grams of `min_n` {settings.min_n} characters or more")
    return rows, splits
