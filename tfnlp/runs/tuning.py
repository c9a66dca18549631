"""What all runs of fine-tuning share: from the examples to the run's folder."""

import abc
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from tfnlp import training
from tfnlp.cards import Card, shown_name
from tfnlp.families.fitting import adaptation_asked
from tfnlp.files import write_lines
from tfnlp.objectives.measure_names import in_words
from tfnlp.runs import task_folder
from tfnlp.runs.backbone import load_backbone
from tfnlp.runs.devices import check_batch
from tfnlp.runs.finetune_examples import crc32, read_parts, say
from tfnlp.runs.finetune_recipe import kept_numbers, remedies
from tfnlp.runs.page import RunPage
from tfnlp.runs.pretraining import make_trainer
from tfnlp.tasks import Task
from tfnlp.tasks.baselines import Baseline, shown_baseline
from tfnlp.training.checkpoints import drop_slots
from tfnlp.training.monitor import wrapped
from tfnlp.training.optimizers import optimizer_settings
from tfnlp.training.run import check_run, record_files, write_config


@dataclasses.dataclass
class Run:
    """One run.

    Attributes:
        folder: Of the run.
        features: A name of `tfnlp.models.FEATURES`; None: the whole model is fine-tuned.
        seed: Of new weights, dropout and the order of examples.
        settings: The numbers of the training.
        config: Its `config.json`.
        model: A `tfnlp.hub.TaskModel`, or the `Pretrained` of sentence vectors.
        objective: What is learnt.
        words: Those that the task has embeddings for.
        dev: The dev examples as the model reads them, and their batches.
    """

    folder: str
    features: str | None
    seed: int
    settings: dict[str, Any]
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    model: Any = None
    objective: Any = None
    words: list[str] | None = None
    dev: tuple[Any, Any] | None = None


class TuningRuns(abc.ABC):
    """The examples and the model that the runs of one config share.

    Attributes:
        title: Of the page, beside the folder's name.
        features: Those of a single run, see `Run`.
        metric: The measure that picks the best checkpoint.
    """

    title: str
    features: str | None = None
    metric: str

    def __init__(
        self,
        kind: type[Task],
        config: Any,
        strategy: Any,
        callbacks: Sequence[keras.callbacks.Callback],
    ) -> None:
        self.config, self.strategy, self.callbacks = config, strategy, callbacks
        if not config.pack:
            check_batch(config, strategy)
        self.train, self.dev, self.read_as = read_parts(kind, config)
        self._said = False  # what is learnt from

    def load_backbone(self) -> None:
        """Load the model, and take what is trained of it from the config."""
        output = None if self.config.restart else self.config.output
        self.backbone = load_backbone(self.config.model, output, self.config)
        self.adaptation = adaptation_asked(self.config)

    @abc.abstractmethod
    def defaults(self, features: str | None) -> dict[str, Any]:
        """Return the numbers of a training that is started now."""

    @abc.abstractmethod
    def build(self, run: Run) -> None:
        """Make the model of a run, and its config."""

    @abc.abstractmethod
    def say_read(self) -> None:
        """Say what is learnt from, before the first run that trains."""

    @abc.abstractmethod
    def keep(self, run: Run) -> None:
        """Write what a run needs beside its checkpoints into its folder."""

    @abc.abstractmethod
    def batches(self, run: Run) -> Any:
        """Return the batches to learn from; set the objective."""

    @abc.abstractmethod
    def described(self, run: Run, batches: Any, steps: int) -> str:
        """Return in words what is learnt from, and by what."""

    @abc.abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return what the results have beside the measures."""

    @abc.abstractmethod
    def card(self, run: Run, results: dict[str, Any]) -> Card:
        """Return the model card of a run."""

    @abc.abstractmethod
    def measured(self, run: Run) -> tuple[dict[str, float], str]:
        """Return the dev measures, and in words that nothing has been learnt, "" if it has."""

    @abc.abstractmethod
    def ordinary(self, run: Run) -> Any:
        """Return a float32 model with merged updates: what the other commands load."""

    @abc.abstractmethod
    def finish(self, run: Run, results: dict[str, Any], page: RunPage) -> str:
        """Measure the best checkpoint, write what is to be seen of it; return the plateau."""

    @property
    def monitor(self) -> str:
        """The measure that picks the checkpoint of the next run."""
        return self.metric

    def run(self, folder: str, features: str | None, seed: int) -> dict[str, Any]:
        """Train one run, or finish one that was stopped; return the dict in RUN/results.json."""
        if self.config.restart:
            task_folder.delete_task(self.config.output)  # the table of several runs, too
            task_folder.delete_task(folder)
        check_run(folder, ignore=[task_folder.RESULTS])  # it is made again if it was deleted
        settings = self.defaults(features)
        settings.update(kept_numbers(self.config, self.strategy, features, folder))
        run = Run(folder, features, seed, settings)
        self.build(run)
        write_config(folder, run.config)
        results = task_folder.read_ending(os.path.join(folder, task_folder.RESULTS))
        if results is not None:
            record_files(folder, [*task_folder.KEPT, task_folder.RESULTS])
            print_results(f"{folder} has ended before; its dev measures: ", results)
            return results
        if not self._said:
            self._said = True
            self.say_read()
        self.keep(run)
        record_files(folder, task_folder.KEPT)
        return self._train(run)

    def _train(self, run: Run) -> dict[str, Any]:
        started, config, folder = time.monotonic(), self.config, run.folder
        batches = self.batches(run)
        epoch = batches.steps_per_epoch
        steps = max(1, math.ceil(run.settings["epochs"] * epoch))
        numbers = run.settings
        rates = None
        if numbers["layer_decay"] != 1 or numbers["freeze"]:
            rates = training.LayerRates(numbers["layer_decay"], numbers["freeze"])
        trainer = make_trainer(
            config, numbers, run.objective, self.strategy, steps, steps_per_call=10,
            seed=run.seed, directory=folder, keep=1, layer_rates=rates,
        )  # fmt: skip
        print(self.described(run, batches, steps), flush=True)
        advice = remedies(config, self.backbone, run.features, run.settings, steps)
        page = RunPage(folder, f"{shown_name(folder)}: {self.title}", trainer, self.monitor)
        results = {"steps": steps, **self.facts()}

        def measured() -> dict[str, float]:
            found, plateau = self.measured(run)
            if plateau:
                say("dev", f"{plateau}; {advice}")
            return found

        history = trainer.fit(
            batches,
            steps,
            validation=measured,
            monitor=self.monitor,
            callbacks=[page.callback(self.card(run, results)), *self.callbacks],
            evaluate_every=max(1, math.ceil(epoch / config.evaluations)),
            patience=config.patience,
        )
        trainer.restore(best=True)
        if (config.dtype_policy() or self.adaptation) and run.features is None:
            run.model = self.ordinary(run)
        plateau = self.finish(run, results, page)
        if plateau:
            results["plateau"] = f"{plateau}; {advice}"
        # The run has ended; nothing goes on from it.
        write_lines(os.path.join(folder, task_folder.RESULTS), [json.dumps(results, indent=2)])
        record_files(folder, [task_folder.RESULTS], replace=True)
        drop_slots(folder)
        print_results(f"dev, best of {len(history.validation)} checkpoints: ", results)
        print(f"{time.monotonic() - started:.0f} s", file=sys.stderr)
        return results

    def training_sections(self, run: Run, **more: Any) -> dict[str, Any]:
        """Return what `config.json` says of the training and of the examples."""
        config = self.config
        numbers = {"metric": self.metric, "bf16": config.bf16, "fp16": config.fp16}
        if config.marks:
            numbers["marks"] = config.marks
        optimizer = training.optimizer(run.settings["optimizer"], run.settings["weight_decay"])
        return {
            "training": {**run.settings, **more, **numbers, "seed": run.seed},
            "optimizer": optimizer_settings(optimizer),
            "data": {
                "examples": len(self.train),
                "crc32": crc32(self.train),
                "dev": crc32(self.dev),
            },
        }


def print_results(head: str, results: dict[str, Any]) -> None:
    """Print measures as lines of 80 columns, without those of single labels, and the baseline.

    That nothing was learnt is said on stderr.
    """
    # Sentence vectors have no baseline.
    found = {name: Baseline(**b) for name, b in results.get("baseline", {}).items()}
    lines = [shown_measures(head, results["metrics"]), shown_baseline(found, results["metric"])]
    print("\n".join(line for line in lines if line), flush=True)
    if "plateau" in results:
        print(f"dev: {results['plateau']}", file=sys.stderr)


def shown_measures(head: str, measures: Mapping[str, float]) -> str:
    """Return measures behind `head` as lines of 80 columns, without those of single labels."""
    shown = {in_words(name): value for name, value in measures.items() if "/" not in name}
    return wrapped(head, [f"{name} {value:.4f}" for name, value in shown.items()], 80)
