"""The neural probabilistic language model (Bengio et al. 2003) as a family."""

import math
from typing import Any

import numpy as np

from tfnlp import models, text
from tfnlp.checkpoints import Pretrained
from tfnlp.data import LanguageModelCorpus, Ngrams
from tfnlp.data.corpus.arrays import count_ids
from tfnlp.families.family import Measured
from tfnlp.families.language_model import (
    LanguageModel,
    RunningText,
    TextToMeasure,
    corpus_to_measure,
    words_to_measure,
)
from tfnlp.families.preparation import Preparation
from tfnlp.families.vocabularies import WORDS
from tfnlp.families.word_vectors import WordVectors, loss_arguments
from tfnlp.objectives import NNLMPretraining
from tfnlp.settings.word_vectors import NNLMEvaluation, NNLMSettings


class NNLM(WordVectors, LanguageModel):
    """The next word from the vectors of the few before it."""

    name, title = "nnlm", "an NNLM"
    row = ("context", "embedding_size")
    encoder, pretrainer = staticmethod(models.nnlm), staticmethod(models.nnlm_pretrainer)
    evaluation = NNLMEvaluation
    vocabulary = WORDS

    def prepare(self, settings: NNLMSettings, before: Any, strategy: Any) -> Preparation:
        return _Ngrams(self, settings)

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        loaded, size = super().restore(path, run, dtype), run["arguments"]["vocab_size"]
        if len(loaded.words) != size:
            raise ValueError(
                f"{path} has {len(loaded.words)} words in vocab.txt, but a model of {size}; do "
                "they belong together?"
            )
        return loaded

    def finish(self, loaded: Pretrained, path: str) -> None:
        table = loaded.encoder.get_layer("token_embedding").embeddings
        loaded.word_vectors = text.WordVectors(loaded.words, table.numpy())

    def evaluate(self, loaded: Pretrained, settings: NNLMEvaluation) -> Measured:
        kind = WordVectors if settings.text is None else LanguageModel
        return kind.evaluate(self, loaded, settings)

    def text_to_measure(self, loaded: Pretrained, settings: NNLMEvaluation) -> TextToMeasure:
        corpus = corpus_to_measure(loaded, settings)
        batch_size = min(settings.batch_size, corpus.num_tokens)
        ngrams = Ngrams(corpus, context=loaded.config["context"], batch_size=batch_size)
        objective = NNLMPretraining(loaded.pretrainer)
        return words_to_measure(corpus, objective, ngrams.evaluation_batches())

    def perplexities(self, results: dict[str, float]) -> str:
        return f"perplexity {results['perplexity']:.2f}"


class _Ngrams(RunningText):
    """N-grams and the loss of their last word."""

    def __init__(self, family: NNLM, settings: NNLMSettings) -> None:
        if not settings.hidden_size and not settings.direct:
            raise ValueError("`hidden_size` 0 must be at least 1 without `direct`")
        if settings.loss == "nce" and not settings.samples:
            raise ValueError("`samples` 0 must be at least 1 with `loss` nce")
        if settings.loss == "hierarchical" and settings.samples:
            raise ValueError(
                f"`samples` {settings.samples} is not for `loss` hierarchical; leave it out"
            )
        super().__init__(family, settings)
        sizes = {"context": settings.context, "batch_size": settings.batch_size}
        self.batches = Ngrams(self.train, **sizes, seed=settings.seed)
        self.measured = Ngrams(self.valid, **sizes)
        self.held_out = self.measured.evaluation_batches(settings.evaluate_batches)
        self._counts = _counts(self.train)
        self.arguments = {
            "vocab_size": self.train.vocab_size,
            "context": settings.context,
            "embedding_size": settings.embedding_size,
            "hidden_size": settings.hidden_size,
            "direct": settings.direct,
            "dropout": settings.dropout,
            "num_samples": settings.samples or None,
            **loss_arguments(settings.loss, "softmax", self._counts),
        }

    def objective(self, model: Any) -> NNLMPretraining:
        return NNLMPretraining(model)

    def fill(self, encoder: Any, trained: Any) -> None:
        if self.settings.loss == "hierarchical":
            trained.get_layer("softmax").set_counts(self._counts)

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
        parameters = sum(math.prod(w.shape) for w in encoder.trainable_weights)  # without a tree
        counted = self.counted(f"{self.batches.steps_per_epoch:,.1f}")
        return f"NNLM with {parameters / 1e6:.2f} M parameters; {counted}"


def _counts(corpus: LanguageModelCorpus) -> np.ndarray:
    """Return how often each word of the vocabulary is to be predicted, int64 `[V]`."""
    counts = count_ids(corpus.ids, corpus.vocab_size)
    counts[corpus.unknown_id] += counts[corpus.vocab_size :].sum()
    counts[corpus.end_id] += corpus.num_sentences
    return counts[: corpus.vocab_size]
