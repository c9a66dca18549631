"""The neural probabilistic language model (Bengio et al. 2003) as a family."""

import math
import os
from typing import Any

from tfnlp.families.elmo_text import read_words_once, word_measures
from tfnlp.families.family import Family, Measured
from tfnlp.families.preparation import (
    Preparation,
    Vocabulary,
    documents,
    tokenized,
    word_vocabulary,
)
from tfnlp.families.vectors import OF_VECTORS, VECTOR_MEASURES, evaluate_vectors
from tfnlp.families.word_losses import loss_arguments
from tfnlp.settings.nnlm import NNLMSettings
from tfnlp.settings.use import EvaluateSettings


def prepare(config: NNLMSettings, before: Any, strategy: Any) -> Preparation:
    """Return what an NNLM's pretraining needs: n-grams and the loss of their last word."""
    from tfnlp.data import Ngrams
    from tfnlp.data.corpus.arrays import int32_checksum
    from tfnlp.objectives import NNLMPretraining
    from tfnlp.text import read_words, write_words

    if not config.hidden_size and not config.direct:
        raise ValueError("`hidden_size` 0 must be at least 1 without `direct`")
    if config.loss == "nce" and not config.samples:
        raise ValueError("`samples` 0 must be at least 1 with `loss` nce")
    if config.loss == "hierarchical" and config.samples:
        raise ValueError(f"`samples` {config.samples} is not for `loss` hierarchical; leave it out")
    train_documents, valid_documents = (
        tokenized(part, config.tokenize) for part in documents(config)
    )
    words = word_vocabulary(config, train_documents)
    train = read_words_once(train_documents, words)
    valid = read_words_once(valid_documents, words)
    sizes = {"context": config.context, "batch_size": config.batch_size}
    ngrams, held_out = Ngrams(train, **sizes, seed=config.seed), Ngrams(valid, **sizes)

    counts = _counts(train)

    def fill(model: Any) -> None:
        if config.loss == "hierarchical":
            model.get_layer("softmax").set_counts(counts)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        parameters = sum(math.prod(w.shape) for w in encoder.trainable_weights)  # without a tree
        return (
            f"NNLM with {parameters / 1e6:.2f} M parameters; {train.num_tokens:,} "
            f"tokens of {train.num_sentences:,} sentences, {ngrams.steps_per_epoch:,.1f} updates "
            f"an epoch; held out: {valid.num_tokens:,} tokens"
        )

    return Preparation(
        batches=ngrams,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(words, read_words, write_words),
        arguments={
            "vocab_size": train.vocab_size,
            "context": config.context,
            "embedding_size": config.embedding_size,
            "hidden_size": config.hidden_size,
            "direct": config.direct,
            "dropout": config.dropout,
            "num_samples": config.samples or None,
            **loss_arguments(config.loss, "softmax", counts),
        },
        text={},
        corpus={"tokens": train.num_tokens, "crc32": int32_checksum(train.ids)},
        objective=NNLMPretraining,
        prepare_model=fill,
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches()),
        line=lambda when, results: (
            f"held out, full softmax, {when}: perplexity {results['perplexity']:.2f}"
        ),
    )


def _counts(corpus: Any) -> Any:
    """Return how often each word of the vocabulary is to be predicted, int64 `[V]`."""
    from tfnlp.data.corpus.arrays import count_ids

    counts = count_ids(corpus.ids, corpus.vocab_size)
    counts[corpus.unknown_id] += counts[corpus.vocab_size :].sum()
    counts[corpus.end_id] += corpus.num_sentences
    return counts[: corpus.vocab_size]


def restore(path: str, run: dict[str, Any], dtype: str | None = None) -> Any:
    """Return the NNLM of a run."""
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.text import read_words

    words = read_words(os.path.join(path, "vocab.txt"))
    if len(words) != run["arguments"]["vocab_size"]:
        raise ValueError(
            f"{path} has {len(words)} words in vocab.txt, but a model of "
            f"{run['arguments']['vocab_size']}; do they belong together?"
        )
    model, pretrainer = NNLM.build(run["arguments"], {}, dtype)
    return Pretrained(model, pretrainer, run["arguments"], words=words)


def finish(loaded: Any, path: str) -> None:
    """Make the word vectors from the restored weights."""
    from tfnlp.text import WordVectors

    table = loaded.encoder.get_layer("token_embedding").embeddings
    loaded.word_vectors = WordVectors(loaded.words, table.numpy())


def evaluate(loaded: Any, config: EvaluateSettings) -> Measured:
    """Return the perplexity over all tokens of a text, or what the word vectors know."""
    from tfnlp import training
    from tfnlp.data import LanguageModelCorpus, Ngrams
    from tfnlp.data.corpus.python_text import documents_of
    from tfnlp.objectives import NNLMPretraining

    if config.analogies or config.similarity:
        return evaluate_vectors(loaded, config)
    tokenize = config.tokenize or loaded.run.get("text", {}).get("tokenize", False)
    documents = tokenized(list(documents_of(config.text, config.layout)), tokenize)
    corpus = LanguageModelCorpus.build(documents, loaded.words)
    batch_size = min(config.batch_size, corpus.num_tokens)
    ngrams = Ngrams(corpus, context=loaded.config["context"], batch_size=batch_size)
    trainer = training.Trainer(NNLMPretraining(loaded.pretrainer), training.AdamW(), 0.0)
    results = trainer.evaluate(ngrams.evaluation_batches())
    return word_measures(corpus, results, f"perplexity {results['perplexity']:.2f}")


NNLM = Family(
    name="nnlm",
    title="an NNLM",
    config=NNLMSettings,
    sizes={},
    sections={"arguments": ("nnlm", frozenset({"name", "dtype"}))},
    pretrainer="nnlm_pretrainer",
    row=("context", "embedding_size"),
    prepare=prepare,
    restore=restore,
    finish=finish,
    evaluate=evaluate,
    evaluation={"text": None, "tokenize": False, "batch_size": 512, **VECTOR_MEASURES},
    needs=("text|analogies|similarity",),
    **OF_VECTORS,
)
