"""Fine-tuning: examples and a pretrained model to a run's folder."""

import collections
import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tfnlp import __version__
from tfnlp.cards import Card, base_of
from tfnlp.data.labelled.batches import bucket_lengths
from tfnlp.families import FAMILIES
from tfnlp.families.fitting import SECTION, check_adaptation
from tfnlp.families.sizes import width
from tfnlp.files import write_lines
from tfnlp.locks import locked
from tfnlp.runs import task_folder
from tfnlp.runs.attention_maps import worst_attention
from tfnlp.runs.backbone import backbone_config, keep_backbone
from tfnlp.runs.checking import say_read
from tfnlp.runs.devices import check_batch_memory, devices, shown_weights
from tfnlp.runs.engine import use_engine
from tfnlp.runs.finetune_examples import (
    check_examples,
    fold_numbers,
    say_cut,
    say_labels,
    say_unmeasured,
    shown_source,
    source_names,
)
from tfnlp.runs.finetune_recipe import (
    check_pack,
    check_used,
    loss_settings,
    max_length_of,
    measured_by,
    metric_of,
    settings_of,
    task_of,
)
from tfnlp.runs.page import EXAMPLES, RunPage, mapped, of_rows
from tfnlp.runs.pretraining import train_family
from tfnlp.runs.projector import write_projector
from tfnlp.runs.sentence_training import SentenceRuns
from tfnlp.runs.several import is_single, run_all, search
from tfnlp.runs.teaching import Teaching, check_teacher
from tfnlp.runs.tuning import Run, TuningRuns
from tfnlp.settings.finetune import FEATURES, FinetuneSettings
from tfnlp.tasks import Embed, Fill, HeadTask, Task, report
from tfnlp.tasks.baselines import plateau_of
from tfnlp.text import split_words
from tfnlp.training import is_compiled


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
            work = SentenceRuns(Embed, config, strategy, callbacks)
        else:
            work = HeadRuns(kind, config, strategy, callbacks)
        choices = FEATURES if config.features == "all" else [work.features]
        if single:
            results = work.run(config.output, choices[0], config.seeds[0])
            print(f"run: {config.output}", flush=True)
            return {**results, "folder": config.output}, work.dev
        if config.search:
            return search(config, work), work.dev
        return run_all(config, work, choices), work.dev


class HeadRuns(TuningRuns):
    """The runs that put the head of a task on a model."""

    def __init__(
        self,
        kind: type[HeadTask],
        config: FinetuneSettings,
        strategy: Any,
        callbacks: Sequence[keras.callbacks.Callback] = (),
    ) -> None:
        check_teacher(config)
        super().__init__(kind, config, strategy, callbacks)
        self.title = kind.name
        self.every = self.train  # of which folds are held out in turn
        if config.folds:
            self._folds = fold_numbers(kind, self.every, config.folds)
            self._divide(0)
        self.load_backbone()
        # A family that can't be fine-tuned as a whole is used for features.
        frozen = not self.backbone.family.trains
        self.features = config.features or ("sum-all" if frozen else None)
        check_used(config, self.backbone, self.features)
        if config.pack:
            check_pack(config, self.backbone, self.features)
        check_adaptation(self.adaptation, self.backbone, self.features)
        self.task = kind.learnt_from(
            self.every,
            config,
            max_length=max_length_of(config, self.backbone),
            whole=self.features is None,
            both_orders=self.backbone.family.both_orders,
        )
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

    @property
    def monitor(self) -> str:
        """The measure that picks the checkpoint; a fold may have no targets of the usual one."""
        return measured_by(self.task, self.dev, self.metric)

    def defaults(self, features: str | None) -> dict[str, Any]:
        settings = settings_of(self.config, self.backbone, features, len(self.examples))
        return {**settings, **self._loss_settings}

    def build(self, run: Run) -> None:
        run.words = self._words()
        run.config = self._run_config(run)
        if run.features is not None:
            optimizer = self.config.optimizer
            task_folder.check_features(self.backbone, run.config, run.words, optimizer)
        keras.utils.set_random_seed(run.seed)
        with self.strategy.scope():
            run.model = task_folder.make_task_model(
                self.backbone, run.config, run.words, self.config.dtype_policy(), self.config.pack
            )

    def _run_config(self, run: Run) -> dict[str, Any]:
        """Return `config.json`: everything that decides which numbers a run ends with."""
        config = self.config
        head = {"dropout": run.settings["dropout"]}
        if run.features is not None:
            head.update(units=config.units, lstm_layers=config.lstm_layers)
            if run.words is not None:
                head["embedding_size"] = config.word_embeddings
            if hasattr(config, "predicate_size"):
                head["predicate_size"] = config.predicate_size
        columns = {"text": config.text_columns, "label": config.label}
        if self.read_as.label_columns or self.read_as.separator:
            columns["label_columns"] = self.read_as.label_columns
            columns["separator"] = self.read_as.separator
        return {
            "tfnlp": __version__,
            "model": "task",
            "spec": self.task.config(),
            "backbone": backbone_config(self.backbone),
            "features": run.features,
            **({SECTION: self.adaptation.config()} if self.adaptation else {}),
            "head": head,
            "columns": columns,
            **self.training_sections(run),
            **({"teacher": self.teaching.config(run.folder)} if self.teaching else {}),
        }

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

    def say_read(self) -> None:
        config = self.config
        train = shown_source(config.train)
        dev = f"{train}, held out" if config.dev is None else shown_source(config.dev)
        say_labels(dev, self.task, self.dev)
        reader = self.backbone.family.reader(self.backbone)
        say_read(type(self.task), train, self.train, self.dev, reader, self.task.max_length)
        if config.metric is None:
            say_unmeasured(dev, self.task, [self.metric])

    def keep(self, run: Run) -> None:
        keep_backbone(self.backbone, run.folder, run.model.features)
        if run.words is not None:
            write_lines(os.path.join(run.folder, task_folder.WORDS), run.words)

    def batches(self, run: Run) -> Any:
        """Return the batches to learn from: padded, of about as many tokens, or packed rows."""
        config, strategy, settings, model = self.config, self.strategy, run.settings, run.model
        train, dev = self._prepare(run)
        if self.teaching is not None:
            train.more = self.teaching.columns(train.encoded)
        run.objective = task_of(model, settings)
        # Each step is traced for two lengths or more, so a set of one length pads less than that.
        replicas = strategy.num_replicas_in_sync
        tokens, size = settings.get("batch_tokens"), settings["batch_size"]
        run.dev = dev, model.batches(dev, -(-size // replicas) * replicas)
        parts = replicas * settings["accumulation"]
        if model.packed is not None:
            rows = {"batch_size": parts, "examples_per_batch": size}
            if tokens is not None:
                rows = {"batch_size": max(1, tokens // (model.task.max_length * parts)) * parts}
            return model.packed_batches(train, self.examples, seed=run.seed, **rows)
        # A TPU's programs have fixed shapes.
        fixed = config.no_buckets or isinstance(strategy, tf.distribute.TPUStrategy)
        compiled = is_compiled(strategy, config.jit)
        sizes, multiple = train.encoded.sizes, model.task.window or 8
        lengths = bucket_lengths(sizes, multiple=multiple) if compiled else None  # few programs
        options = {"seed": run.seed, "pad_all": fixed}
        if tokens is not None:
            size, options["batch_tokens"] = parts, tokens
        return model.batches(train, size, self.examples, lengths, **options)

    def _prepare(self, run: Run) -> Any:
        """Return training and dev examples as the model reads them; features are computed once."""
        key = (run.features, len(run.words or ()))
        if key not in self._prepared:
            self._prepared.clear()  # tables are large
            self._prepared[key] = run.model.prepare([self.examples, self.dev], self.config.cache)
            if self._cut is None:
                self._say_cut(*(part.encoded.cut for part in self._prepared[key]))
        return self._prepared[key]

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

    def described(self, run: Run, batches: Any, steps: int) -> str:
        size = str(run.settings["batch_size"])
        if "pack" in run.settings:
            size = f"{batches.batch_size} rows of {batches.length} tokens"
        elif "batch_tokens" in run.settings:
            size = f"{run.settings['batch_tokens']:,} tokens"
        return (
            f"{self.task.name}: {len(self.examples):,} examples to learn from, "
            f"{len(self.dev):,} to measure on; {steps} steps of {size}\n"
            + shown_weights(run.model.model)
            + (f" on {run.features} features" if run.features else "")
            + ("" if self.teaching is None else f"\n{self.teaching.described()}")
        )

    def facts(self) -> dict[str, Any]:
        config, (_, licence) = self.config, base_of(self.backbone)
        base = None if self.backbone.path is None else os.fspath(self.backbone.path)
        if base is not None and os.path.exists(base):
            base = os.path.abspath(base)
        names = source_names(config.train)
        dev = [f"{x}, held out" for x in names] if config.dev is None else source_names(config.dev)
        data = {"train": names, "examples": len(self.train), "dev": dev}
        data["dev_examples"] = len(self.dev)
        return {"cut": self._cut, "base": base, "licence": licence, "data": data}

    def card(self, run: Run, results: dict[str, Any]) -> Card:
        return task_folder.card_of_task(self.task, run.config, results, run.folder)

    def measured(self, run: Run) -> tuple[dict[str, float], str]:
        dev, batches = run.dev
        predictions = run.model.predict(self.dev, prepared=dev, batches=batches)
        task, predictions = self.task.tuned(self.dev, predictions)
        found = task.measures(self.dev, predictions)
        plateau = plateau_of(task, self.dev, predictions, found, self.metric)
        # Not those of single labels, which may be many.
        return {n: x for n, x in found.items() if "/" not in n or n == self.metric}, plateau

    def ordinary(self, run: Run) -> Any:
        model = task_folder.make_task_model(self.backbone, run.config, run.words)
        model.model.set_weights(run.model.model.get_weights())
        self.adaptation.finish(model.model)
        return model

    def finish(self, run: Run, results: dict[str, Any], page: RunPage) -> str:
        """Measure the best checkpoint as `tfnlp evaluate` does; write predictions and the page."""
        model, (dev, _) = run.model, run.dev
        predictions = model.predict(self.dev, prepared=dev)
        metrics = self.task.measures(self.dev, predictions)
        results.update(metrics=metrics, metric=self.metric)
        baselines = self.task.baselines(self.task.golds(self.dev))
        results["baseline"] = {name: dataclasses.asdict(b) for name, b in baselines.items()}
        model.task, kept = self.task.settled(self.dev, predictions, metrics)
        if kept:
            predictions = model.predict(self.dev, prepared=dev)
            results.update(kept, metrics=model.task.measures(self.dev, predictions))
        task, rows = model.task, map(model.task.row, self.dev, predictions)
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        write_lines(os.path.join(run.folder, task_folder.PREDICTIONS), lines)
        plateau = plateau_of(task, self.dev, predictions, results["metrics"], self.metric)
        rows = list(map(task.report_row, self.dev, predictions))
        vectors, drawn = model.vectors(self.dev[:EXAMPLES]), None
        if vectors is not None:
            columns = mapped(task, rows[:EXAMPLES])
            write_projector(run.folder, "examples", vectors, columns)
            title = f"{len(vectors)} examples, by the vectors of the last layer"
            drawn = report.text_map(title, vectors, *columns.values())
        attention = worst_attention(model, self.dev, rows) if page.writes else None
        more = (baselines, self.metric, drawn, attention)
        card = task_folder.card_of_task(task, run.config, results, run.folder)
        page.write(card, **of_rows(task, rows, results["metrics"], *more))
        return plateau
