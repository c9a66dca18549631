"""ELMo's pretraining text: windows of running text, read in both directions."""

from typing import Any

from tfnlp.families.family import Measured
from tfnlp.families.preparation import (
    Preparation,
    Vocabulary,
    documents,
    tokenized,
    tokenized_once,
    word_vocabulary,
)


def prepare(config: Any, before: Any, strategy: Any) -> Preparation:
    """Return what ELMo's pretraining needs: windows of running text, the losses of both LMs."""
    from tfnlp.data import LanguageModelWindows
    from tfnlp.data.corpus.arrays import int32_checksum
    from tfnlp.objectives import ElmoPretraining
    from tfnlp.text import read_words, write_words
    from tfnlp.training import is_compiled

    train_documents, valid_documents = (
        tokenized(part, config.tokenize) for part in documents(config)
    )
    known = None if before is None else before.words
    words = word_vocabulary(config, train_documents) if known is None else known
    train = read_words_once(train_documents, words)
    valid = read_words_once(valid_documents, words, train.lexicon)
    windows = LanguageModelWindows(
        train,
        batch_size=config.batch_size,
        window=config.window,
        seed=config.seed,
        reset=config.reset,
    )
    held_out = held_out_windows(
        valid, config.batch_size, config.window, config.reset, strategy.num_replicas_in_sync
    )
    # The number of distinct words would be another shape in each batch.
    compiled = is_compiled(strategy, config.jit)

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        width = encoder.get_layer("bilm").projection_size
        return (
            f"ELMo with {encoder.count_params() / 1e6:.2f} M parameters and a softmax over "
            f"{train.vocab_size:,} words ({train.vocab_size * (width + 1) / 1e6:.2f} M); "
            f"{train.num_tokens:,} tokens of {train.num_sentences:,} sentences, "
            f"{windows.steps_per_epoch:,} updates an epoch; held out: {valid.num_tokens:,} tokens"
        )

    return Preparation(
        batches=windows,
        held_out=held_out.evaluation_batches(config.evaluate_batches),
        vocabulary=Vocabulary(words, read_words, write_words),
        arguments=_sizes(config, before),
        heads={"vocab_size": train.vocab_size, "num_samples": config.samples or None},
        unrecorded_heads={"dropout": config.dropout, "resets": config.reset != "never"},
        text={},
        corpus={"tokens": train.num_tokens, "crc32": int32_checksum(train.ids)},
        # All words that will be read have their characters here, those held out too.
        objective=lambda pretrainer: ElmoPretraining(
            pretrainer, valid.characters(), config.batch_size, distinct=not compiled
        ),
        describe=describe,
        measure=lambda trainer: trainer.evaluate(held_out.evaluation_batches()),
        line=lambda when, results: f"held out, full softmax, {when}: {perplexities(results)}",
        first=before is not None,
        copy_weights=None if before is None else lambda e, p: _copy_weights(before, e, p),
        loss_scale=config.window / 2,
    )


def read_words_once(documents: Any, words: list[str], lexicon: list[str] | None = None) -> Any:
    """Return the `LanguageModelCorpus` of documents, see its `build`."""
    from tfnlp.data import LanguageModelCorpus

    return tokenized_once(
        documents,
        ["lexicon", words, lexicon],
        lambda folder: LanguageModelCorpus.build(documents, words, lexicon, folder=folder),
        LanguageModelCorpus.read,
    )


def perplexities(results: dict[str, float]) -> str:
    """Return the perplexities of an evaluation as text."""
    return (
        f"perplexity {results['perplexity']:.2f} (forward {results['forward_perplexity']:.2f}, "
        f"backward {results['backward_perplexity']:.2f})"
    )


def held_out_windows(corpus: Any, batch_size: int, window: int, reset: str, replicas: int) -> Any:
    """Return windows to evaluate on, in fewer rows than in training where the text is short."""
    from tfnlp.data import LanguageModelWindows

    # A row starts without context; let that be one window in ten.
    rows = min(batch_size, corpus.num_tokens // (10 * window)) // replicas * replicas
    rows = max(rows, replicas)
    window = min(window, max(1, corpus.num_tokens // rows))
    return LanguageModelWindows(corpus, batch_size=rows, window=window, reset=reset)


def _sizes(config: Any, before: Any) -> dict[str, Any]:
    from tfnlp import models
    from tfnlp.settings.elmo import CHANGED_SIZES, SIZES

    if before is not None:
        return {**before.config, "dropout": config.dropout}
    sizes = dict(getattr(models, SIZES[config.size]))
    sizes.update({n: getattr(config, n) for n in CHANGED_SIZES if getattr(config, n) is not None})
    return {**sizes, "dropout": config.dropout}


def _copy_weights(before: Any, encoder: Any, pretrainer: Any) -> None:
    encoder.set_weights(before.encoder.get_weights())
    if before.pretrainer is not None and before.words is not None:
        softmax = pretrainer.get_layer("softmax")
        kept = before.pretrainer.get_layer("softmax")
        softmax.kernel.assign(kept.kernel)
        softmax.bias.assign(kept.bias)


def word_measures(corpus: Any, results: dict[str, float], shown: str) -> Measured:
    """Return perplexities with the counts of a text in words."""
    from tfnlp.data.corpus.arrays import chunks

    unknown = sum(
        int(((ids >= corpus.vocab_size) | (ids == corpus.unknown_id)).sum())
        for ids in chunks(corpus.ids)
    )
    counts = {
        "sentences": corpus.num_sentences,
        "words": corpus.num_words,
        "unknown_words": unknown,
        "tokens": corpus.num_tokens,
    }
    return Measured(
        {**results, **counts},
        f"{counts['tokens']:,} tokens: {counts['words']:,} words "
        f"({counts['unknown_words']:,} of them not in the vocabulary) and the ends of "
        f"{counts['sentences']:,} sentences\nfull softmax: {shown}",
    )
