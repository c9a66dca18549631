"""Translation with an encoder-decoder: what seq2seq and the Transformer share as families."""

import functools
import os
import zlib
from collections.abc import Callable
from typing import Any

from tfnlp.families import translation_use
from tfnlp.families.family import Family
from tfnlp.families.preparation import (
    BPE_VOCABULARY,
    Preparation,
    Vocabulary,
    bpe_vocabulary,
    write_bpe_folder,
)
from tfnlp.families.translation_use import paths


def translation_family(name: str, decoder: str, **own: Any) -> Family:
    """Return the record of an encoder-decoder."""
    return Family(
        name=name,
        sections={"arguments": (name, frozenset({"name", "dtype"}))},
        row=("num_layers", "hidden_size"),
        restore=functools.partial(restore, name, decoder),
        evaluate=translation_use.evaluate,
        evaluation=translation_use.TRANSLATION_MEASURES,
        needs=translation_use.TRANSLATION_NEEDS,
        export=translation_use.export,
        exports=translation_use.TRANSLATION_EXPORTS,
        vectors=translation_use.vectors,
        sentences=translation_use.sentences,
        prediction=translation_use.TRANSLATION_PREDICTION,
        **own,
    )


def prepare(config: Any, sizes: dict[str, Any], strategy: Any) -> Preparation:
    """Return what translation needs: batches of pairs, the smoothed loss of the next token."""
    import tensorflow as tf

    from tfnlp.data import translation_batches
    from tfnlp.objectives import Translation
    from tfnlp.text import gpt_tokenizer, read_bpe

    text, held_out = _texts(config)
    pair = bpe_vocabulary(config, lambda: (s for side in text[:2] for s in side))
    tokenizer = gpt_tokenizer(pair)
    sources, targets = _short(*(tokenize(tokenizer, side) for side in text[:2]), config.max_tokens)
    # A TPU's programs have fixed shapes.
    shapes = {"pad_all": isinstance(strategy, tf.distribute.TPUStrategy)}
    rows = {"batch_size": config.batch_size, "seed": config.seed}
    if config.batch_tokens is not None:
        parts = strategy.num_replicas_in_sync * config.accumulation
        rows.update(batch_size=parts, batch_tokens=config.batch_tokens)
    batches = translation_batches(sources, targets, tokenizer.end_id, **rows, **shapes)
    shapes["batch_size"] = config.batch_size
    sides = (tokenize(tokenizer, side) for side in held_out[:2])
    valid = translation_batches(*sides, tokenizer.end_id, **shapes)
    tokens = sum(map(len, sources)) + sum(map(len, targets))
    checksum = zlib.crc32("\n".join(text.sources).encode())
    checksum = zlib.crc32("\n".join(text.targets).encode(), checksum)
    left_out = len(text.sources) - len(sources) + text.left_out

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        return (
            f"{encoder.count_params() / 1e6:.2f} M parameters; {len(sources):,} pairs of "
            f"{tokens:,} tokens"
            + (f", {left_out:,} empty or too long ones left out" if left_out else "")
            + f"; held out: {len(held_out.sources):,} pairs"
            + (f", {held_out.left_out:,} empty ones left out" if held_out.left_out else "")
            + f"; {steps:,} updates"
        )

    def measure(trainer: Any) -> dict[str, float]:
        return trainer.evaluate(valid.evaluation_batches())

    return Preparation(
        batches=batches,
        held_out=valid.evaluation_batches(),
        vocabulary=Vocabulary(pair, read_bpe, write_bpe_folder, BPE_VOCABULARY),
        arguments={"vocab_size": tokenizer.vocab_size, **sizes},
        corpus={"pairs": len(sources), "tokens": tokens, "crc32": checksum},
        objective=lambda model: Translation(model, config.label_smoothing),
        checkpoints=lambda steps: _checkpoints(config, steps),
        describe=describe,
        measure=measure,
        line=_line,
        finish=lambda trainer, settings, results: _average(trainer, settings, results, measure),
    )


def _short(sources: list[Any], targets: list[Any], max_tokens: int) -> tuple[list, list]:
    """Return the pairs of which both sides have fewer than `max_tokens` tokens."""
    pairs = zip(sources, targets, strict=True)
    kept = [pair for pair in pairs if max(map(len, pair)) < max_tokens]
    if not kept:
        raise ValueError(f"no pair is shorter than `max_tokens` {max_tokens}")
    sources, targets = zip(*kept, strict=True)
    return list(sources), list(targets)


def _checkpoints(config: Any, steps: int) -> dict[str, int]:
    """Return how often to write checkpoints and how many to keep for their mean."""
    if not config.average:
        return {}
    # The mean is that of the last tenth of the run, if nothing else is said.
    every = config.checkpoint_every or max(1, steps // (10 * config.average))
    return {"keep": max(config.keep, config.average), "checkpoint_every": every}


def _line(when: str, results: dict[str, float], more: str = "") -> str:
    return (
        f"held out, {when}: perplexity {results['perplexity']:.2f} a token, "
        f"{results['token_accuracy']:.3f} of the tokens right{more}"
    )


def _average(
    trainer: Any, config: Any, best: dict[str, float], measure: Callable
) -> dict[str, float]:
    """Leave the mean of the last checkpoints in the run if it is better than the best of them."""
    import tensorflow as tf

    from tfnlp.training import average_checkpoints
    from tfnlp.training.run import restore_weights

    if not config.average or config.steps // config.checkpoint_every < config.average:
        return best
    chief = trainer.workers.chief
    if chief:
        path = average_checkpoints(config.output, config.average)
    trainer.workers.gather(trainer.step)  # nobody reads it before it is there
    restore_weights(config.output, trainer.objective.model, average=True)
    results = measure(trainer)
    better = results["nll"] < best["nll"]
    when = f"mean of the last {config.average} checkpoints"
    print(_line(when, results, "" if better else ", not used"), flush=True)
    if chief and not better:
        tf.io.gfile.rmtree(path)
    return results if better else best


def tokenize(tokenizer: Any, sentences: list[str]) -> list[Any]:
    """Return the ids of each sentence, int32 arrays."""
    import tensorflow as tf

    tokens = []
    for first in range(0, len(sentences), 10_000):
        ragged = tokenizer.tokenize(tf.constant(sentences[first : first + 10_000]))
        values, splits = ragged.values.numpy(), ragged.row_splits.numpy()
        tokens += [values[a:b] for a, b in zip(splits[:-1], splits[1:], strict=True)]
    return tokens


def _texts(config: Any) -> tuple[Any, Any]:
    """Return pairs to train on and pairs held out, two `ParallelText`s."""
    import numpy as np

    from tfnlp.data.corpus.parallel_text import ParallelText, parallel_rows, read_parallel

    if bool(config.valid_source) != bool(config.valid_target):
        raise ValueError("give both `valid_source` and `valid_target`, or neither")
    if config.text is not None:
        text = parallel_rows(config.text, "text")
    elif config.source and config.target:
        text = read_parallel(paths(config.source), paths(config.target))
    else:
        raise ValueError("give `source` and `target`, the two files of a translation")
    if config.valid_source:
        return text, read_parallel(paths(config.valid_source), paths(config.valid_target))
    count = round(config.held_out * len(text.sources))
    if not 0 < count < len(text.sources):
        raise ValueError(
            f"`held_out` {config.held_out} of {len(text.sources)} pairs are {count}; one or more "
            "must be held out, and one or more left"
        )
    order = np.random.Generator(np.random.Philox(key=config.seed)).permutation(len(text.sources))
    chosen = set(order[:count].tolist())
    train, held = (
        [[s for i, s in enumerate(side) if (i in chosen) == is_held] for side in text[:2]]
        for is_held in (False, True)
    )
    return ParallelText(*train, text.left_out), ParallelText(*held, 0)


def restore(
    name: str, decoder: str, path: str, run: dict[str, Any], dtype: str | None = None
) -> Any:
    """Return a run's model with its tokenizer and decoder, see `translation_family`."""
    from tfnlp import models
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.text import gpt_tokenizer

    arguments, vocabulary = run["arguments"], os.path.join(path, BPE_VOCABULARY)
    model, tokenizer = getattr(models, name)(**arguments, dtype=dtype), gpt_tokenizer(vocabulary)
    return Pretrained(
        model,
        None,
        arguments,
        make_tokenizer=lambda: tokenizer,
        vocabulary=vocabulary,
        decoder=getattr(models, decoder)(model, tokenizer.end_id),
    )
