"""The neural probabilistic language model (Bengio et al. 2003) as a family."""

import math
import os
from typing import Any

import numpy as np

from tfnlp import models, text
from tfnlp.checkpoints import Pretrained
from tfnlp.data import LanguageModelCorpus, Ngrams
from tfnlp.data.corpus.arrays import count_ids, int32_checksum
from tfnlp.families.family import Measured
from tfnlp.families.language_model import (
    LanguageModel,
    TextToMeasure,
    corpus_to_measure,
    word_corpus,
    words_to_measure,
)
from tfnlp.families.preparation import Preparation, documents, tokenized, tokens_of
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

    def prepare(self, settings: NNLMSettings, before: Any, strategy: Any) -> Preparation:
        """Return n-grams."""
        return _Ngrams(self, settings)

    def restore(self, path: str, run: dict[str, Any], dtype: str | None = None) -> Pretrained:
        """Return the NNLM of a run."""
        words = WORDS.read(os.path.join(path, WORDS.name))
        if len(words) != run["arguments"]["vocab_size"]:
            raise ValueError(
                f"{path} has {len(words)} words in vocab.txt, but a model of "
                f"{run['arguments']['vocab_size']}; do they belong together?"
            )
        model, pretrainer = self.build(run["arguments"], {}, dtype)
        return Pretrained(model, pretrainer, run["arguments"], words=words)

    def finish(self, loaded: Pretrained, path: str) -> None:
        """Make the word vectors from the restored weights."""
        table = loaded.encoder.get_layer("token_embedding").embeddings
        loaded.word_vectors = text.WordVectors(loaded.words, table.numpy())

    def evaluate(self, loaded: Pretrained, settings: NNLMEvaluation) -> Measured:
        """Return the perplexity over all tokens of a text, or what the word vectors know."""
        kind = WordVectors if settings.text is None else LanguageModel
        return kind.evaluate(self, loaded, settings)

    def text_to_measure(self, loaded: Pretrained, settings: NNLMEvaluation) -> TextToMeasure:
        """Return the n-grams of a text."""
        corpus = corpus_to_measure(loaded, settings)
        batch_size = min(settings.batch_size, corpus.num_tokens)
        ngrams = Ngrams(corpus, context=loaded.config["context"], batch_size=batch_size)
        objective = NNLMPretraining(loaded.pretrainer)
        return words_to_measure(corpus, objective, ngrams.evaluation_batches())

    def perplexities(self, results: dict[str, float]) -> str:
        """Return the perplexity."""
        return f"perplexity {results['perplexity']:.2f}"


class _Ngrams(Preparation):
    """N-grams and the loss of their last word."""

    vocabulary = WORDS
    text = {}

    def __init__(self, family: NNLM, settings: NNLMSettings) -> None:
        if not settings.hidden_size and not settings.direct:
            raise ValueError("`hidden_size` 0 must be at least 1 without `direct`")
        if settings.loss == "nce" and not settings.samples:
            raise ValueError("`samples` 0 must be at least 1 with `loss` nce")
        if settings.loss == "hierarchical" and settings.samples:
            raise ValueError(
                f"`samples` {settings.samples} is not for `loss` hierarchical; leave it out"
            )
        self.family, self.settings = family, settings
        train_documents, valid_documents = (
            tokenized(part, settings.tokenize) for part in documents(settings)
        )
        self.tokens = tokens_of(settings, WORDS, train_documents)
        train = word_corpus(train_documents, self.tokens)
        valid = word_corpus(valid_documents, self.tokens)
        sizes = {"context": settings.context, "batch_size": settings.batch_size}
        self.batches = Ngrams(train, **sizes, seed=settings.seed)
        self._valid = Ngrams(valid, **sizes)
        self.held_out = self._valid.evaluation_batches(settings.evaluate_batches)
        self._counts = _counts(train)
        self.arguments = {
            "vocab_size": train.vocab_size,
            "context": settings.context,
            "embedding_size": settings.embedding_size,
            "hidden_size": settings.hidden_size,
            "direct": settings.direct,
            "dropout": settings.dropout,
            "num_samples": settings.samples or None,
            **loss_arguments(settings.loss, "softmax", self._counts),
        }
        self.corpus = {"tokens": train.num_tokens, "crc32": int32_checksum(train.ids)}
        self._described = (
            f"{train.num_tokens:,} tokens of {train.num_sentences:,} sentences, "
            f"{self.batches.steps_per_epoch:,.1f} updates an epoch; held out: "
            f"{valid.num_tokens:,} tokens"
        )

    def objective(self, model: Any) -> NNLMPretraining:
        """Return the loss of the next word."""
        return NNLMPretraining(model)

    def fill(self, encoder: Any, trained: Any) -> None:
        """Set how often words come, which their tree follows from."""
        if self.settings.loss == "hierarchical":
            trained.get_layer("softmax").set_counts(self._counts)

    def describe(self, encoder: Any, trained: Any, steps: int) -> str:
        """Return sizes of model and text."""
        parameters = sum(math.prod(w.shape) for w in encoder.trainable_weights)  # without a tree
        return f"NNLM with {parameters / 1e6:.2f} M parameters; {self._described}"

    def measure(self, trainer: Any) -> dict[str, float]:
        """Return the perplexity of the whole held-out text."""
        return trainer.evaluate(self._valid.evaluation_batches())

    def line(self, when: str, results: dict[str, float]) -> str:
        """Return the perplexity."""
        return f"held out, full softmax, {when}: {self.family.perplexities(results)}"


def _counts(corpus: LanguageModelCorpus) -> np.ndarray:
    """Return how often each word of the vocabulary is to be predicted, int64 `[V]`."""
    counts = count_ids(corpus.ids, corpus.vocab_size)
    counts[corpus.unknown_id] += counts[corpus.vocab_size :].sum()
    counts[corpus.end_id] += corpus.num_sentences
    return counts[: corpus.vocab_size]
