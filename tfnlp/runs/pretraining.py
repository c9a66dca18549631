"""Pretraining of any family: text to a run's folder, and on from where a run was stopped."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp import __version__, training
from tfnlp.cards import card_of_run, shown_name
from tfnlp.checkpoints import Pretrained
from tfnlp.families.family import Family
from tfnlp.families.preparation import Preparation, readable, with_examples
from tfnlp.families.recognition import load_pretrained
from tfnlp.files import local_copy, write_lines, written_whole
from tfnlp.published import at_revision, is_published
from tfnlp.runs.devices import alone, check_batch, check_rows, check_weights, devices
from tfnlp.runs.engine import use_engine
from tfnlp.runs.page import RunPage, measures
from tfnlp.runs.projector import WORDS, write_projector
from tfnlp.training import workers_of
from tfnlp.training.optimizers import optimizer_settings
from tfnlp.training.run import (
    check_run,
    delete_run,
    is_run,
    read_config,
    record_files,
    write_config,
)


def train_family(
    family: Family, config: Any, callbacks: Sequence[keras.callbacks.Callback] = ()
) -> dict[str, Any]:
    """Train a model of a family, or finish the training of an earlier start.

    Returns:
        the held-out measures, with "output", a path.
    """
    use_engine(config.engine, config.strategy, config.tpu)

    if hasattr(config, "examples"):
        config = with_examples(config, family.name)
    with devices(config) as strategy, alone(config, strategy), readable(config, family.name):
        return _train(family, config, strategy, callbacks)


def _train(
    family: Family, config: Any, strategy: Any, callbacks: Sequence[keras.callbacks.Callback]
) -> dict[str, Any]:
    check_batch(config, strategy)
    if not config.restart:
        check_run(config.output)
    given = config

    def load(path: Any, family: Family | None = None, dtype: str | None = None) -> Pretrained:
        return load_pretrained(_as_begun(given) if path == given.start else path, family, dtype)

    config, before = family.begin(config, load)
    check_rows(family, config, before, workers_of(strategy).count)
    prepared = family.prepare(config, before, strategy)
    steps = _steps(config, prepared.batches)
    config = config.replace(steps=steps)
    config = config.replace(**prepared.checkpoints(steps))
    heads = {**(prepared.heads or {}), **prepared.unrecorded_heads}
    arguments = {**prepared.arguments, **prepared.unrecorded_arguments}
    check_weights(family, config, arguments, heads)
    settings = run_config(family, config, prepared)
    if before is not None and before.revision is not None:
        settings["training"]["from_revision"] = before.revision
    start_run(config, settings, prepared, strategy)

    keras.utils.set_random_seed(config.seed)
    with strategy.scope():
        encoder, pretrainer = family.build(arguments, heads, config.dtype_policy())
        trained = encoder if pretrainer is None else pretrainer
        prepared.fill(encoder, trained)
        task = prepared.objective(trained)
    print(prepared.describe(encoder, trained, steps), flush=True)
    trainer = make_trainer(config, task, strategy, loss_scale=prepared.loss_scale)
    if prepared.first and not trainer.restore():
        print(_line(prepared, "before", prepared.measure(trainer)), flush=True)
    page = RunPage(config.output, f"{shown_name(config.output)}: {family.short_title}", trainer)
    drawn = page.callback(card_of_run(family.title, settings))
    trainer.fit(
        prepared.batches,
        config.steps,
        validation=prepared.held_out,
        evaluate_every=config.evaluate_every,
        checkpoint_every=config.checkpoint_every,
        patience=config.patience,
        callbacks=[drawn, *callbacks],
        profile=config.profile,
    )
    trainer.restore(best=True)
    results = prepared.measure(trainer)
    line = _line(prepared, f"after {trainer.step} updates", results)
    print(line, flush=True)
    results = prepared.finish(trainer, config, results)
    if trainer.workers.chief:
        trained = Pretrained(encoder, None, prepared.arguments, run=settings, words=prepared.tokens)
        family.finish(trained, config.output)
        if (found := trained.word_vectors) is not None:
            shown = {"word": found.words[:WORDS]}
            write_projector(config.output, "words", found.vectors[:WORDS], shown)
    card = card_of_run(family.title, settings, trainer.history)
    card = dataclasses.replace(card, summary=f"{card.summary} {line[0].upper()}{line[1:]}.")
    page.write(card, measures=[measures(results)])
    print(f"run: {config.output}", flush=True)
    return {**results, "steps": steps, "output": config.output}


def _line(prepared: Preparation, when: str, results: dict[str, float]) -> str:
    """Return held-out measures as a line, for people."""
    if set(results) <= {"step"}:
        return f"held out, {when}: nothing to measure is left in this text; hold out more"
    return prepared.line(when, results)


def _as_begun(config: Any) -> Any:
    """Return `start` at the commit or version that the run has begun with."""
    if not is_published(config.start) or config.restart or not is_run(config.output):
        return config.start
    known = read_config(config.output).get("training")
    if not isinstance(known, dict) or known.get("from") != config.start:
        return config.start
    if "from_revision" not in known:
        return config.start
    return at_revision(config.start, known["from_revision"])


def _steps(config: Any, batches: Any) -> int:
    epoch = batches.steps_per_epoch  # raises for a text that is too short, before files are made
    if config.steps is not None:
        return config.steps
    if config.epochs is None:
        return config.default_steps
    return max(1, round(config.epochs * epoch))


def run_config(family: Family, config: Any, prepared: Preparation) -> dict[str, Any]:
    """Return `config.json`: everything that decides which numbers a run ends with."""
    found = {
        "tfnlp": __version__,
        "model": family.name,
        "arguments": prepared.arguments,
        "heads": prepared.heads,
        "text": None if prepared.text is None else {**config.recorded("text"), **prepared.text},
        "training": {**config.recorded("training"), **prepared.training},
        "optimizer": optimizer_settings(training.optimizer(config.optimizer, config.weight_decay)),
        "corpus": prepared.corpus,
    }
    return {name: part for name, part in found.items() if part is not None}


def start_run(config: Any, settings: dict, prepared: Preparation, strategy: Any) -> None:
    """Make the run's folder, or check that the one there is this run's."""
    if not workers_of(strategy).chief:
        return
    if config.restart:
        delete_run(config.output)
    vocabulary = prepared.vocabulary
    kept = tf.io.gfile.join(config.output, vocabulary.name)
    known = tf.io.gfile.exists(kept)
    if known:
        with local_copy(kept) as path:
            same = vocabulary.read(path) == prepared.tokens
        if not same:
            raise ValueError(
                f"{config.output} holds a run with another vocabulary than "
                f"{config.vocab or 'the one to be used'}; give the same one to resume it, or "
                "another `output` to start a new one"
            )
    starts = any(field.name == "start" for field in dataclasses.fields(config))
    way_on = f", with `start` {config.output} to go on from its weights" if starts else ""
    write_config(config.output, settings, way_on)
    if not known:
        with written_whole(kept) as path:
            vocabulary.write(path, prepared.tokens)
    for name, lines in prepared.files.items():
        path = tf.io.gfile.join(config.output, name)
        if not tf.io.gfile.exists(path):
            write_lines(path, lines)
    record_files(config.output, [vocabulary.name, *prepared.files])


def make_trainer(config: Any, task: Any, strategy: Any, **more: Any) -> Any:
    """Return the `Trainer` that a `TrainingSettings` describes."""
    warmup = int(config.warmup * config.steps)
    return training.Trainer(
        task,
        training.optimizer(config.optimizer, config.weight_decay),
        training.schedule(config.schedule, config.learning_rate, config.steps, warmup),
        strategy=strategy,
        clip_norm=config.clip_norm or None,
        accumulation=config.accumulation,
        steps_per_call=config.steps_per_call,
        jit_compile=config.jit,
        seed=config.seed,
        directory=config.output,
        keep=config.keep,
        remat=getattr(config, "remat", "none"),
        **more,
    )
