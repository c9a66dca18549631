"""Pretraining of any family: text to a run's folder, and on from where a run was stopped."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
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
from tfnlp.locks import locked
from tfnlp.runs.backbone import as_begun
from tfnlp.runs.devices import check_batch, check_rows, check_weights, devices
from tfnlp.runs.engine import use_engine
from tfnlp.runs.page import RunPage, measures
from tfnlp.runs.projector import WORDS, write_projector
from tfnlp.training import workers_of
from tfnlp.training.optimizers import optimizer_settings
from tfnlp.training.run import (
    check_run,
    delete_run,
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
    with devices(config) as strategy:
        # Of several workers the first one writes, so it alone locks the folder.
        chief = workers_of(strategy).chief
        with locked(config.output) if chief else contextlib.nullcontext():
            with readable(config, family.name):
                return _train(family, config, strategy, callbacks)


def _train(
    family: Family, config: Any, strategy: Any, callbacks: Sequence[keras.callbacks.Callback]
) -> dict[str, Any]:
    check_batch(config, strategy)
    if not config.restart:
        check_run(config.output)
    given = config

    def load(path: Any, family: Family | None = None, dtype: str | None = None) -> Pretrained:
        begins = path == given.start and not given.restart
        return load_pretrained(as_begun(path, given.output) if begins else path, family, dtype)

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
    trainer = make_trainer(
        config, vars(config), task, strategy, steps, loss_scale=prepared.loss_scale,
        steps_per_call=config.steps_per_call, seed=config.seed, directory=config.output,
        keep=config.keep,
    )  # fmt: skip
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


def make_trainer(
    config: Any, numbers: Mapping[str, Any], task: Any, strategy: Any, steps: int, **more: Any
) -> Any:
    """Return the `Trainer` of a run; `numbers` are those of its optimisation."""
    kind, warmup = numbers.get("schedule", "linear"), int(numbers["warmup"] * steps)
    return training.Trainer(
        task,
        training.optimizer(numbers["optimizer"], numbers["weight_decay"]),
        training.schedule(kind, numbers["learning_rate"], steps, warmup),
        strategy=strategy,
        clip_norm=numbers["clip_norm"] or None,
        accumulation=numbers["accumulation"],
        jit_compile=config.jit,
        remat=getattr(config, "remat", "none"),
        **more,
    )
