"""Fine-tuning: examples and a pretrained model to a run's folder."""

import collections
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp.cards import shown_name
from tfnlp.data.labelled.batches import bucket_lengths
from tfnlp.families import FAMILIES
from tfnlp.families.fitting import adaptation_asked, check_adaptation
from tfnlp.families.sizes import width
from tfnlp.files import write_lines
from tfnlp.locks import locked
from tfnlp.runs import task_folder
from tfnlp.runs.attention_maps import worst_attention
from tfnlp.runs.backbone import keep_backbone, load_backbone
from tfnlp.runs.checking import say_read
from tfnlp.runs.devices import check_batch, check_batch_memory, devices, shown_weights
from tfnlp.runs.engine import use_engine
from tfnlp.runs.finetune_examples import (
    check_examples,
    fold_numbers,
    read_parts,
    say,
    say_cut,
    say_labels,
    say_unmeasured,
    shown_source,
)
from tfnlp.runs.finetune_recipe import (
    check_pack,
    check_used,
    kept_numbers,
    loss_settings,
    make_trainer,
    measured_by,
    metric_of,
    remedies,
    settings_of,
    task_learnt,
    task_of,
)
from tfnlp.runs.finetune_record import begin, ended_before, print_results, run_config, write_results
from tfnlp.runs.hyperparameters import search
from tfnlp.runs.page.page import EXAMPLES, RunPage, of_rows
from tfnlp.runs.pretraining import train_family
from tfnlp.runs.projector import write_projector
from tfnlp.runs.sentence_training import SentenceTrainingRuns
from tfnlp.runs.several import is_single, run_all
from tfnlp.runs.task_card import card_of_task, facts_of
from tfnlp.runs.teaching import Teaching, check_teacher, forget
from tfnlp.settings.finetune import FEATURES, FinetuneSettings
from tfnlp.tasks import Embed, Fill, HeadTask, Task
from tfnlp.tasks.report import Map
from tfnlp.text import split_words
from tfnlp.training import is_compiled
from tfnlp.training.run import record_files, write_config


def finetune_task(
    kind: type[Task], config: Any, callbacks: Sequence[keras.callbacks.Callback] = ()
) -> tuple[dict[str, Any], list[Any]]:
    """Train each combination of features and seed that a config asks for.

    Returns:
        `(results, dev examples)`: results are a dict of "metrics" of the best run, "metric", the
        measure that chose it, "folder", its folder, and of several runs "runs", the measures of
        each; of "fill" those of pretraining.
    """
    if kind is Fill:
        family = next(f for f in FAMILIES.values() if isinstance(config, f.settings))
        return {**train_family(family, config, callbacks), "folder": config.output}, []
    use_engine(config.engine, config.strategy, config.tpu)
    single = is_single(config)
    table_of_runs = os.path.join(config.output, task_folder.RUNS)
    if single and not config.restart and os.path.exists(table_of_runs):
        raise ValueError(
            f"{table_of_runs} is of several runs, the best of which {config.output} stands for; "
            "give another `output`, or `restart` to replace them by one run"
        )
    with devices(config) as strategy, locked(config.output):
        if kind is Embed:
            work = SentenceTrainingRuns(config, strategy, callbacks)
        else:
            work = Finetuning(kind, config, strategy, callbacks)
        choices = FEATURES if config.features == "all" else [work.features]
        if single:
            results = work.run(config.output, choices[0], config.seeds[0])
            print(f"run: {config.output}", flush=True)
            return {**results, "folder": config.output}, work.dev
        if config.search:
            return search(config, work), work.dev
        return run_all(config, work, choices), work.dev


class Finetuning:
    """The data and the model that the runs of one config share."""

    def __init__(
        self,
        kind: type[HeadTask],
        config: FinetuneSettings,
        strategy: Any,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        self.config, self.strategy, self.callbacks = config, strategy, callbacks
        check_teacher(config)
        if not config.pack:
            check_batch(config, strategy)
        self.train, self.dev, self.read_as = read_parts(kind, config)
        self.every = self.train  # of which folds are held out in turn
        if config.folds:
            self._folds = fold_numbers(kind, self.every, config.folds)
            self._divide(0)
        output = None if config.restart else config.output
        self.backbone = load_backbone(config.model, output, config)
        # A family that can't be fine-tuned as a whole is used for features.
        frozen = not self.backbone.family.trains
        self.features = config.features or ("sum-all" if frozen else None)
        check_used(config, self.backbone, self.features)
        if config.pack:
            check_pack(config, self.backbone, self.features)
        self.adaptation = adaptation_asked(config)
        check_adaptation(self.adaptation, self.backbone, self.features)
        self.task = task_learnt(kind, config, self.backbone, self.features, self.every)
        self.teaching, self.examples = None, self.train
        if config.teacher is not None:
            self.teaching = Teaching(config, self.task, self.train)
            self.task, self.examples = self.teaching.task, self.teaching.examples
        self._loss_settings = loss_settings(config, self.task, self.train)
        if not config.pack:  # of packed rows there are fewer
            sizes = {"max_length": self.task.max_length, "hidden_size": width(self.backbone) or 1}
            check_batch_memory(config, sizes)
        unlabelled = self.examples[len(self.train) :]
        check_examples(self.task, config, self.train, self.dev, unlabelled)
        self.metric = metric_of(config, self.task, self.every if config.folds else self.dev)
        self._prepared = {}
        self._said = False  # what is learnt from
        self._cut: dict[str, int] | None = None  # examples that are too long; known once prepared

    def _divide(self, fold: int) -> None:
        held = set(self.held_out(fold))
        self.train = [example for n, example in enumerate(self.every) if n not in held]
        self.dev = [self.every[n] for n in self.held_out(fold)]
        self.examples = self.train

    def held_out(self, fold: int) -> list[int]:
        """Return the numbers of the examples of a fold, in their order."""
        return (self._folds == fold).nonzero()[0].tolist()

    def take_fold(self, fold: int) -> None:
        """Let the next run measure on a fold and learn from the others."""
        self._divide(fold)
        self._loss_settings = loss_settings(self.config, self.task, self.train)
        self._prepared.clear()
        self._cut = None

    def defaults(self) -> dict[str, Any]:
        """Return the numbers of a training that is started now."""
        return settings_of(self.config, self.backbone, self.features, len(self.examples))

    def run(self, folder: str, features: str | None, seed: int) -> dict[str, Any]:
        """Train one run, or finish one that was stopped; return the dict in RUN/results.json.

        `features` is a name of `tfnlp.models.FEATURES`, None to fine-tune the whole model; the seed
        is that of new weights, dropout and the order of examples.
        """
        begin(self.config, folder)
        settings = self._settings(folder, features)
        words = self._words()
        config = run_config(self, settings, features, seed, words is not None)
        if self.teaching is not None:
            config["teacher"] = self.teaching.config(folder)
        if features is not None:
            optimizer = self.config.optimizer
            task_folder.check_features(self.backbone, config, words, optimizer)
        keras.utils.set_random_seed(seed)
        with self.strategy.scope():
            model = task_folder.make_task_model(
                self.backbone, config, words, self.config.dtype_policy(), self.config.pack
            )
        write_config(folder, config)
        results = ended_before(folder, task_folder.KEPT)
        if results is not None:
            return results
        self._say_read()
        keep_backbone(self.backbone, folder, model.features)
        if words is not None:
            write_lines(os.path.join(folder, task_folder.WORDS), words)
        record_files(folder, task_folder.KEPT)
        return self._fit(folder, model, features, settings, seed, config, words)

    def _fit(
        self,
        folder: str,
        model: Any,
        features: str | None,
        settings: dict[str, Any],
        seed: int,
        config: dict[str, Any],
        words: list[str] | None,
    ) -> dict[str, Any]:
        """Train; return the dict in RUN/results.json."""
        started = time.monotonic()
        train, dev = self._prepare(model, features, len(words or ()))
        if self.teaching is not None:
            train.more = self.teaching.columns(folder, train.encoded)
        batches = _training_batches(self, model, train, settings, seed)
        # Each step is traced for two lengths or more, so a set of one length pads less than that.
        replicas = self.strategy.num_replicas_in_sync
        dev_batches = model.batches(dev, -(-settings["batch_size"] // replicas) * replicas)
        steps = max(1, math.ceil(settings["epochs"] * batches.steps_per_epoch))
        epoch = batches.steps_per_epoch
        learnt = task_of(model, settings)
        trainer = make_trainer(self.config, self.strategy, learnt, settings, steps, folder, seed)
        print(
            f"{self.task.name}: {len(self.examples):,} examples to learn from, "
            f"{len(self.dev):,} to measure on; {steps} steps of {_shown_size(settings, batches)}\n"
            + shown_weights(model.model)
            + (f" on {features} features" if features else "")
            + ("" if self.teaching is None else f"\n{self.teaching.described()}"),
            flush=True,
        )
        advice = remedies(self.config, self.backbone, features, settings, steps)
        monitor = measured_by(self.task, self.dev, self.metric)
        page = RunPage(folder, f"{shown_name(folder)}: {self.task.name}", trainer, monitor)
        given = (self.config.train, self.config.dev, len(self.train), len(self.dev))
        results = {"steps": steps, "cut": self._cut, **facts_of(self.backbone, *given)}
        card = card_of_task(self.task, config, results, folder)
        history = trainer.fit(
            batches,
            steps,
            validation=lambda: self._measured(model, dev, dev_batches, advice),
            monitor=monitor,
            callbacks=[page.callback(card), *self.callbacks],
            evaluate_every=max(1, math.ceil(epoch / self.config.evaluations)),
            patience=self.config.patience,
        )
        trainer.restore(best=True)
        if (self.config.dtype_policy() or self.adaptation) and features is None:
            model = self._ordinary(model, config, words)
        predictions = self._measure(model, dev, results, advice)
        task, rows = model.task, map(model.task.row, self.dev, predictions)
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        write_lines(os.path.join(folder, task_folder.PREDICTIONS), lines)
        rows = list(map(task.report_row, self.dev, predictions))
        vectors = model.vectors(self.dev[:EXAMPLES])
        attention = worst_attention(model, self.dev, rows) if page.writes else None
        more = (task.baselines(task.golds(self.dev)), self.metric, vectors, attention)
        sections = of_rows(task, rows, results["metrics"], *more)
        page.write(card_of_task(task, config, results, folder), **sections)
        if vectors is not None:
            drawn = next(chart for chart in sections["charts"] if isinstance(chart, Map))
            columns = {"text": drawn.texts, "gold": drawn.groups}
            write_projector(folder, "examples", vectors, columns)
        write_results(folder, results)  # the run has ended
        forget(folder)
        print_results(f"dev, best of {len(history.validation)} checkpoints: ", results)
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
        return results

    def _ordinary(self, trained: Any, config: dict[str, Any], words: list[str] | None) -> Any:
        """Return a float32 model with merged updates: what the other commands load."""
        model = task_folder.make_task_model(self.backbone, config, words)
        model.model.set_weights(trained.model.get_weights())
        self.adaptation.finish(model.model)
        return model

    def _settings(self, folder: str, features: str | None) -> dict[str, Any]:
        """Return the numbers of a training; an earlier start keeps its rate and micro-batches."""
        settings = settings_of(self.config, self.backbone, features, len(self.examples))
        kept = kept_numbers(self.config, self.strategy, features, folder)
        return {**settings, **self._loss_settings, **kept}

    def _measured(self, model: Any, dev: Any, dev_batches: Any, advice: str) -> dict[str, float]:
        predictions = model.predict(self.dev, prepared=dev, batches=dev_batches)
        task, predictions = self.task.tuned(self.dev, predictions)
        found = task.measures(self.dev, predictions)
        plateau = task.plateau(self.dev, predictions, found, self.metric)
        if plateau:
            say("dev", f"{plateau}; {advice}")
        # Not those of single labels, which may be many.
        return {n: x for n, x in found.items() if "/" not in n or n == self.metric}

    def _prepare(self, model: Any, features: str | None, words: int) -> Any:
        """Return training and dev examples as the model reads them; features are computed once."""
        key = (features, words)
        if key not in self._prepared:
            self._prepared.clear()  # tables are large
            self._prepared[key] = model.prepare([self.examples, self.dev], self.config.cache)
            if self._cut is None:
                self._say_cut(*(part.encoded.cut for part in self._prepared[key]))
        return self._prepared[key]

    def _say_read(self) -> None:
        """Say what is learnt from, before the first run that trains."""
        if self._said:
            return
        self._said, config = True, self.config
        train = shown_source(config.train)
        dev = f"{train}, held out" if config.dev is None else shown_source(config.dev)
        say_labels(dev, self.task, self.dev)
        reader = self.backbone.family.reader(self.backbone)
        say_read(type(self.task), train, self.train, self.dev, reader, self.task.max_length)
        if config.metric is None:
            say_unmeasured(dev, self.task, [self.metric])

    def _say_cut(self, train: int, dev: int) -> None:
        config = self.config
        self._cut = {"train": train, "dev": dev}
        source, count = shown_source(config.train), len(self.examples)
        if config.unlabelled is not None:
            source += f" and {shown_source(config.unlabelled)}"
        if config.dev is None:  # both are of one source
            say_cut(source, self.task, train + dev, count + len(self.dev))
        else:
            say_cut(source, self.task, train, count)
            say_cut(shown_source(config.dev), self.task, dev, len(self.dev))

    def _words(self) -> list[str] | None:
        """Return the words that the task has embeddings for: they come twice or more."""
        if not self.backbone.family.word_embeddings or not self.config.word_embeddings:
            return None
        counts = collections.Counter(
            word.lower()
            for example in self.train
            for words in self.task.words_of(example, split_words)
            for word in words
        )
        found = sorted((w for w, n in counts.items() if n > 1), key=lambda w: (-counts[w], w))
        return [word for word in found if word.strip() == word and word]

    def _measure(self, model: Any, dev: Any, results: dict[str, Any], advice: str) -> list[dict]:
        """Add the measures of the best checkpoint to `results`, as `tfnlp evaluate`; predict."""
        predictions = model.predict(self.dev, prepared=dev)
        metrics = self.task.measures(self.dev, predictions)
        results.update(metrics=metrics, metric=self.metric)
        found = self.task.baselines(self.task.golds(self.dev))
        results["baseline"] = {name: dataclasses.asdict(b) for name, b in found.items()}
        model.task, kept = self.task.settled(self.dev, predictions, metrics)
        if kept:
            predictions = model.predict(self.dev, prepared=dev)
            results.update(kept, metrics=model.task.measures(self.dev, predictions))
        plateau = model.task.plateau(self.dev, predictions, results["metrics"], self.metric)
        if plateau:
            results["plateau"] = f"{plateau}; {advice}"
        return predictions


def _training_batches(
    work: Finetuning, model: Any, train: Any, settings: dict[str, Any], seed: int
) -> Any:
    """Return the batches to learn from: padded, of about as many tokens, or packed rows."""
    config, strategy, examples = work.config, work.strategy, work.examples
    parts = strategy.num_replicas_in_sync * settings["accumulation"]
    tokens, size = settings.get("batch_tokens"), settings["batch_size"]
    if model.packed is not None:
        rows = {"batch_size": parts, "examples_per_batch": size}
        if tokens is not None:
            rows = {"batch_size": max(1, tokens // (model.task.max_length * parts)) * parts}
        return model.packed_batches(train, examples, seed=seed, **rows)
    # A TPU's programs have fixed shapes.
    fixed = config.no_buckets or isinstance(strategy, tf.distribute.TPUStrategy)
    compiled = is_compiled(strategy, config.jit)
    sizes, multiple = train.encoded.sizes, model.task.window or 8
    lengths = bucket_lengths(sizes, multiple=multiple) if compiled else None  # few programs
    options = {"seed": seed, "pad_all": fixed}
    if tokens is not None:
        size, options["batch_tokens"] = parts, tokens
    return model.batches(train, size, examples, lengths, **options)


def _shown_size(settings: dict[str, Any], batches: Any) -> str:
    if "pack" in settings:
        return f"{batches.batch_size} rows of {batches.length} tokens"
    if "batch_tokens" in settings:
        return f"{settings['batch_tokens']:,} tokens"
    return str(settings["batch_size"])
