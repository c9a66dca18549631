"""Translation with an encoder-decoder: what seq2seq and the Transformer share as families."""

import dataclasses
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tfnlp.configs import option
from tfnlp.families.config import OutputConfig, TrainingConfig
from tfnlp.families.family import Measured, Prediction
from tfnlp.families.preparation import (
    BPE_VOCABULARY,
    Preparation,
    Vocabulary,
    bpe_vocabulary,
    write_bpe_folder,
)
from tfnlp.families.use_config import EvaluateConfig, ExportConfig, ModelConfig

TRANSLATION_MEASURES = {
    "source": None, "target": None, "batch_size": 32, "beams": 4, "length_penalty": 0.6,
    "report": None,
}  # fmt: skip
TRANSLATION_EXPORTS = ("beams", "length_penalty")
TRANSLATION_NEEDS = ("source", "target")
# Lengths of fixed shapes are an option of the models, not of their runs.
NOT_STATED = frozenset({"name", "dtype", "source_length", "target_length"})


@dataclasses.dataclass(kw_only=True)
class PairConfig(OutputConfig):
    """Sentences and their translations."""

    source: Any = option(
        None, "sentences, one a line; .gz is unpacked", metavar="FILE", group="text"
    )
    target: Any = option(None, "their translations, line by line", metavar="FILE", group="text")
    text: Any = option(
        None, "pairs (sentence, translation) in place of source and target", hidden=True
    )
    valid_source: Any = option(None, "held-out sources", metavar="FILE", group="text")
    valid_target: Any = option(None, "held-out targets", metavar="FILE", group="text")
    held_out: float = option(
        0.02, "without held-out files: share of the pairs held out", group="text"
    )
    vocab: str | None = option(
        None, "byte pairs of both languages; learnt if absent", metavar="DIR", group="text"
    )
    vocab_size: int = option(8000, "tokens if they are learnt", group="text")
    max_tokens: int = option(
        100, "longer sentences are not trained on", group="text", record="training"
    )


@dataclasses.dataclass(kw_only=True)
class TranslationTraining(TrainingConfig):
    """What only translation asks of training."""

    label_smoothing: float = option(
        0.1, "share of the target spread over all tokens", group="optimisation", record="training"
    )
    average: int = option(
        5, "last checkpoints whose mean is used if it is better than the best one; 0: none",
        at_least=0, group="checkpoints",
    )  # fmt: skip


def prepare(config: Any, sizes: dict[str, Any], strategy: Any) -> Preparation:
    """Return what translation needs: batches of pairs, the smoothed loss of the next token.

    Args:
        config: A config of `PairConfig` and `TranslationTraining`.
        sizes: Arguments of the model, but for `vocab_size`.
        strategy: The devices.
    """
    import tensorflow as tf

    from tfnlp.data import translation_batches
    from tfnlp.tasks import Translation
    from tfnlp.text import gpt_tokenizer, read_bpe

    text, held_out = _texts(config)
    pair = bpe_vocabulary(config, lambda: (s for side in text[:2] for s in side))
    tokenizer = gpt_tokenizer(pair)
    sources, targets = (tokenize(tokenizer, side) for side in text[:2])
    kept = [
        i
        for i, (source, target) in enumerate(zip(sources, targets, strict=True))
        if max(len(source), len(target)) < config.max_tokens
    ]
    if not kept:
        raise ValueError(f"no pair is shorter than `max_tokens` {config.max_tokens}")
    shapes = {
        "batch_size": config.batch_size,
        # A TPU's programs have fixed shapes.
        "pad_all": isinstance(strategy, tf.distribute.TPUStrategy),
    }
    batches = translation_batches(
        [sources[i] for i in kept],
        [targets[i] for i in kept],
        tokenizer.end_id,
        seed=config.seed,
        **shapes,
    )
    sides = (tokenize(tokenizer, side) for side in held_out[:2])
    valid = translation_batches(*sides, tokenizer.end_id, **shapes)
    tokens = sum(len(sources[i]) + len(targets[i]) for i in kept)
    left_out = len(sources) - len(kept) + text.left_out

    def describe(encoder: Any, pretrainer: Any, steps: int) -> str:
        return (
            f"{encoder.count_params() / 1e6:.2f} M parameters; {len(kept):,} pairs of {tokens:,} "
            "tokens"
            + (f", {left_out:,} empty or too long ones left out" if left_out else "")
            + f"; held out: {len(held_out.sources):,} pairs; {steps:,} updates"
        )

    def measure(trainer: Any) -> dict[str, float]:
        return trainer.evaluate(valid.evaluation_batches())

    return Preparation(
        batches=batches,
        held_out=valid.evaluation_batches(),
        vocabulary=Vocabulary(pair, read_bpe, write_bpe_folder, BPE_VOCABULARY),
        arguments={"vocab_size": tokenizer.vocab_size, **sizes},
        corpus={"pairs": len(kept), "tokens": tokens, "crc32": _crc32(text)},
        objective=lambda model: Translation(model, config.label_smoothing),
        checkpoints=lambda steps: _checkpoints(config, steps),
        describe=describe,
        measure=measure,
        line=_line,
        finish=lambda trainer, settings, results: _average(trainer, settings, results, measure),
    )


def _crc32(text: Any) -> int:
    found = 0
    for side in text[:2]:
        found = zlib.crc32("\n".join(side).encode(), found)
    return found


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
    restore_weights(config.output, trainer.task.model, average=True)
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

    from tfnlp.data import ParallelText, read_parallel

    if bool(config.valid_source) != bool(config.valid_target):
        raise ValueError("give both `valid_source` and `valid_target`, or neither")
    if config.text is not None:
        sources, targets = (list(side) for side in zip(*config.text, strict=True))
        text = ParallelText(sources, targets, 0)
    elif config.source and config.target:
        text = read_parallel(_paths(config.source), _paths(config.target))
    else:
        raise ValueError("give `source` and `target`, the two files of a translation")
    if config.valid_source:
        return text, read_parallel(_paths(config.valid_source), _paths(config.valid_target))
    count = round(config.held_out * len(text.sources))
    if not 0 < count < len(text.sources):
        raise ValueError(
            f"`held_out` {config.held_out} of {len(text.sources)} pairs are {count}; one or more "
            "must be held out, and one or more left"
        )
    order = np.random.Generator(np.random.Philox(key=config.seed)).permutation(len(text.sources))
    chosen = set(order[:count].tolist())
    sides = [
        [[s for i, s in enumerate(side) if (i in chosen) == held] for side in text[:2]]
        for held in (False, True)
    ]
    return text._replace(sources=sides[0][0], targets=sides[0][1]), text._replace(
        sources=sides[1][0], targets=sides[1][1], left_out=0
    )


def _paths(source: Any) -> list[str]:
    return [os.fspath(source)] if isinstance(source, str | os.PathLike) else list(source)


def restored(model: Any, decoder: Callable, path: str, arguments: dict[str, Any]) -> Any:
    """Return a run's model with its tokenizer and decoder."""
    from tfnlp.convert.pretrained import Pretrained
    from tfnlp.text import gpt_tokenizer

    vocabulary = os.path.join(path, BPE_VOCABULARY)
    tokenizer = gpt_tokenizer(vocabulary)
    return Pretrained(
        model,
        None,
        arguments,
        make_tokenizer=lambda: tokenizer,
        vocabulary=vocabulary,
        decoder=decoder(model, tokenizer.end_id),
    )


def evaluate(loaded: Any, config: EvaluateConfig) -> Measured:
    """Return BLEU, of the whole text and by the length of its sentences.

    With `report`, translations and a plot of BLEU by length are written to that folder.
    """
    from tfnlp.data import read_parallel
    from tfnlp.files import written_whole
    from tfnlp.hub import Translator
    from tfnlp.pictures import plot_lengths
    from tfnlp.tasks.bleu import bleu_by_length, corpus_bleu

    text = read_parallel(_paths(config.source), _paths(config.target))
    translator = Translator(loaded.decoder, loaded.tokenizer, config.beams, config.length_penalty)
    translations = translator(text.sources, config.batch_size, progress=True)
    bleu, signature = corpus_bleu(translations, text.targets)
    lengths = bleu_by_length(text.sources, translations, text.targets)
    shown = [f"BLEU {bleu:.2f} of {len(translations):,} sentences ({signature})"]
    for row in lengths:
        words = f"{row.shortest} to {row.longest} words"
        shown.append(f"  {words:18s}{row.count:6,} sentences  {row.bleu:6.2f}")
    if config.report:
        os.makedirs(config.report, exist_ok=True)
        with written_whole(os.path.join(config.report, "translations.txt")) as path:
            with open(path, "w", encoding="utf-8") as file:
                file.writelines(f"{translation}\n" for translation in translations)
        with written_whole(os.path.join(config.report, "lengths.png")) as path:
            plot_lengths({"": lengths}, path)
        shown.append(f"report: {config.report}")
    rows = [row._asdict() for row in lengths]
    return Measured({"bleu": bleu, "signature": signature, "lengths": rows}, "\n".join(shown))


def vectors(loaded: Any, texts: list[str]) -> list[str]:
    """Return the translations of strings, as the exported module would."""
    from tfnlp.hub import Translator

    return Translator(loaded.decoder, loaded.tokenizer)(texts)


def export(loaded: Any, config: ExportConfig) -> dict[str, str]:
    """Write a module of sentences to translations."""
    from tfnlp import hub

    beams = 4 if config.beams is None else config.beams
    penalty = 0.6 if config.length_penalty is None else config.length_penalty
    translator = hub.Translator(loaded.decoder, loaded.tokenizer, beams, penalty)
    return {"module": hub.export_translator(
        config.output, loaded.encoder, translator, config.overwrite
    )}  # fmt: skip


@dataclasses.dataclass(kw_only=True)
class PredictTranslation(ModelConfig):
    """Arguments of `tfnlp predict translation`."""

    text: list[str] = option(
        [], "sentences to translate; none: one a line from stdin",
        positional=True, metavar="sentence",
    )  # fmt: skip
    beams: int = option(4, "hypotheses kept at a time", at_least=1)
    length_penalty: float = option(0.6, "above 0 it favours long translations")
    attention: str | None = option(None, "draw the attention of the first sentence", metavar="PNG")


def _check(config: PredictTranslation) -> None:
    if not any(config.text):
        raise ValueError("no text: give sentences as arguments or on standard input")


def predict(loaded: Any, config: PredictTranslation) -> list[str]:
    """Return the translations, and draw the attention of the first one."""
    from tfnlp.hub import Translator

    translator = Translator(loaded.decoder, loaded.tokenizer, config.beams, config.length_penalty)
    translations = translator(config.text)
    if config.attention:
        _draw(loaded, config.text[0], translations[0], config.attention)
    return translations


def lines(loaded: Any, config: PredictTranslation) -> Iterator[str]:
    """Yield a translation a line."""
    yield "".join(f"{translation}\n" for translation in predict(loaded, config))
    if config.attention:
        print(f"attention: {config.attention}", file=sys.stderr)


def _draw(loaded: Any, sentence: str, translation: str, path: str) -> None:
    import numpy as np

    from tfnlp.pictures import plot_attention

    if "attention" not in loaded.encoder.output:
        raise ValueError("a model without attention has none to draw; leave `attention` away")
    tokenizer = loaded.tokenizer
    source, target = (
        list(tokenizer.tokenize([text])[0].numpy()) for text in (sentence, translation)
    )
    end = tokenizer.end_id
    ids = np.array([[*source, end]], np.int32)
    outputs = loaded.encoder(
        {
            "input_word_ids": ids,
            "input_mask": np.ones_like(ids),
            "target_word_ids": np.array([[end, *target]], np.int32),
        }
    )
    scores = np.asarray(outputs["attention"])[0]
    scores = scores if scores.ndim == 3 else scores[None]  # [N, T, S]
    pieces = [[_shown(tokenizer, i) for i in [*side, end]] for side in (source, target)]
    plot_attention(scores, pieces[1], path, columns=pieces[0])


def _shown(tokenizer: Any, token: int) -> str:
    if token == tokenizer.end_id:
        return "(end)"
    return tokenizer.detokenize([[token]])[0].numpy().decode("utf-8", "replace").strip()


TRANSLATION_PREDICTION = Prediction(
    name="translation",
    summary="Translate sentences, and show which words the model attended to for each word.",
    config=PredictTranslation,
    predict=predict,
    lines=lines,
    check=_check,
)
