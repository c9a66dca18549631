"""The sub-commands: what each takes, and what it does with its options."""

import argparse
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from tfnlp.cli.options import add_command, add_options, config_of
from tfnlp.files import is_remote, reached, written_whole
from tfnlp.published import is_published
from tfnlp.settings.formats import FORMAT_SETTINGS, ExportSettings, FormatSettings
from tfnlp.settings.options import Settings, names_of
from tfnlp.settings.plan import PlanSettings
from tfnlp.settings.serve import ServeSettings
from tfnlp.settings.show import PICTURES
from tfnlp.settings.tables import EVALUATIONS, EXAMPLES, FAMILIES, PREDICTIONS, TASKS
from tfnlp.settings.text import VocabSettings
from tfnlp.settings.use import (
    CheckSettings,
    EmbedSettings,
    EvaluateTask,
    InspectSettings,
    ModelSettings,
    PredictionSettings,
    VerifySettings,
)


def _vocab(options: argparse.Namespace) -> None:
    """Read the corpus, train the vocabulary, write it whole or not at all."""
    import tensorflow as tf

    from tfnlp.data import documents_of
    from tfnlp.text import train_wordpiece, write_vocabulary

    config = config_of(options)
    folder = os.path.dirname(os.path.abspath(config.output))
    if is_remote(config.output):
        with reached(config.output):
            tf.io.gfile.exists(config.output)
    elif not os.path.isdir(folder):
        raise FileNotFoundError(f"`output` {config.output}: the folder {folder} does not exist")
    if os.path.isdir(config.output):
        raise IsADirectoryError(f"`output` {config.output} is a folder; give a file to write")
    sentences = (s for d in documents_of(config.text, config.layout) for s in d)
    tokens = train_wordpiece(
        sentences, config.size, lowercase=not config.cased, min_frequency=config.min_frequency
    )
    write_vocabulary(config.output, tokens)
    print(f"{config.output}: {len(tokens)} tokens, {'cased' if config.cased else 'uncased'}")


def _examples(options: argparse.Namespace) -> None:
    """Write a folder of examples; the same command again goes on where it was stopped."""
    from tfnlp.families import FAMILIES
    from tfnlp.runs.examples import report, write_examples

    config = config_of(options)
    print(report(config.output, write_examples(FAMILIES[options.family], config)))


def _pretrain(options: argparse.Namespace) -> None:
    """Train text to a run's folder; the same command again resumes a run that was stopped."""
    from tfnlp.families import FAMILIES
    from tfnlp.runs.pretraining import train_family

    train_family(FAMILIES[options.family], config_of(options))


def _check(options: argparse.Namespace) -> None:
    from tfnlp.runs.checking import check_rows

    print(check_rows(config_of(options)))


def _finetune(options: argparse.Namespace) -> None:
    """Train each combination of features and seed that is asked for."""
    from tfnlp.runs.finetuning import finetune_task
    from tfnlp.tasks import TASKS

    kind = TASKS[options.task]
    results, _ = finetune_task(kind, config_of(options))
    if kind.hint:
        print(kind.hint.format(folder=results["folder"]))


def _embed(options: argparse.Namespace) -> None:
    from tfnlp.runs.embedding import embed_files

    config = config_of(options)
    if is_published(options.given_model):  # an index keeps its name, not the place of a copy
        config = config.replace(model=options.given_model)
    found = embed_files(config, options.dtype)
    print(f"{found['texts']:,} texts, {found['size']} numbers each: {', '.join(found['files'])}")


def _evaluate(options: argparse.Namespace) -> None:
    """Print the measures of a model: the model says which settings it takes."""
    from tfnlp.families.recognition import check_precision, load_pretrained
    from tfnlp.runs.task_folder import is_task

    given = _given(options, EVALUATIONS)
    if is_task(options.model):
        _evaluate_task(options, given)
        return
    loaded = load_pretrained(options.model, dtype=options.dtype)
    check_precision(loaded, options.dtype)
    measured = loaded.family.measured(loaded, given.pop("text", None), given)
    print(json.dumps(measured.results) if options.json else measured.text)


def _evaluate_task(options: argparse.Namespace, given: dict[str, Any]) -> None:
    from tfnlp.runs.task_run import TaskRun

    if "text" not in given:
        raise ValueError("give `text`, the labelled examples")
    settings = EvaluateTask.make(data=given.pop("text"), **given)
    loaded = TaskRun(options.model, options.dtype)
    loaded.path = options.given_model
    metrics = loaded.measured(settings)
    if options.json:
        print(json.dumps(metrics))
    else:
        print("\n".join(f"{name:28s}{value:.4f}" for name, value in metrics.items()))
    if settings.report is not None:
        print(f"page: {settings.report}/page.html")


def _export(options: argparse.Namespace) -> None:
    from tfnlp.runs.front_door import load

    config = config_of(options, ExportSettings)
    given = _given(options, FORMAT_SETTINGS)
    written = load(config.model).export(config.output, format=config.format, **given)
    for name, path in written.items():
        print(f"{name}: {path}")


def _inspect(options: argparse.Namespace) -> None:
    from tfnlp.families.recognition import opened_modules
    from tfnlp.hub import audit
    from tfnlp.runs.front_door import inspect

    config = config_of(options)
    if config.audit:
        with opened_modules(config.directory) as folders:
            found = [audit(folder) for folder in folders]
    else:
        found = inspect(config.directory)
    if config.json:
        print(json.dumps([module.to_dict() for module in found], indent=2))
    else:
        print("\n\n".join(map(str, found)))


def _verify(options: argparse.Namespace) -> int:
    """Print the largest differences; return 1 if some are large."""
    from tfnlp.runs.front_door import verify

    config = config_of(options)
    found = verify(config.folder, config.texts, python=config.python, card=config.card)
    print(found)
    return 0 if found.is_equal else 1


def _predict(options: argparse.Namespace) -> None:
    """Print predictions: the model says which settings it takes."""
    from tfnlp.families.recognition import check_precision
    from tfnlp.runs.front_door import load

    loaded = load(options.model, options.dtype)
    if not hasattr(loaded, "lines"):
        raise ValueError(
            f"{options.model} is {loaded.title}: call what `tfnlp.load` returns, or give the run "
            "or checkpoint that it was made from"
        )
    kind = loaded.prediction
    if options.dtype not in (None, kind.bf16_policy):
        loaded = load(options.model, kind.bf16_policy)
    check_precision(loaded, options.dtype)
    config = kind.make(**{**_given(options, PREDICTIONS), "model": loaded})
    if config.reads_stdin and not config.text and not sys.stdin.isatty():
        config = config.replace(text=_stdin_texts(config.blank_lines))
    for piece in loaded.lines(config):
        print(piece, end="", flush=True)


def _stdin_texts(blank_lines: bool) -> list[str]:
    """Return the texts of standard input, a line each."""
    lines = [line.rstrip("\n") for line in sys.stdin]
    kept = [line for line in lines if blank_lines or line.strip()]
    if len(kept) < len(lines):
        empty = f"{len(lines) - len(kept):,} of {len(lines):,}"
        print(f"standard input: {empty} lines are empty and were left out", file=sys.stderr)
    return kept


def _show(options: argparse.Namespace) -> None:
    """Print what the picture shows, and write it."""
    from tfnlp import show

    config = config_of(options)
    given = {name: getattr(config, name) for name in names_of(type(config))}
    output = given.pop("output")
    picture = getattr(show, options.picture)(**given)
    picture.save(output)
    print(f"{picture}\n{output}")


def _serve(options: argparse.Namespace) -> None:
    from tfnlp.serving.server import serve

    serve(config_of(options))


def _plan(options: argparse.Namespace) -> None:
    """Print the plan of the batch that was asked for, or of the largest that fits."""
    from tfnlp.plan.planning import make_plan
    from tfnlp.plan.report import report

    config = config_of(options)
    result = make_plan(config)
    print(report(config, result))
    if config.json:
        with written_whole(config.json) as path, open(path, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


def _given(options: argparse.Namespace, kinds: tuple[type[Settings], ...]) -> dict[str, Any]:
    """Return the options that settings of some kind take."""
    names = {name for settings in kinds for name in names_of(settings)}
    return {name: value for name, value in vars(options).items() if name in names}


@dataclasses.dataclass(frozen=True)
class Command:
    """A sub-command.

    Attributes:
        summary: What it does, a line of `--help`.
        run: Does it with the parsed options; returns the exit code, None for 0.
        settings: Its options; or of its own sub-commands the options and a line of `--help` each.
        dest: The name under which the options have the chosen sub-command.
        metavar: Its name in `--help`.
        kinds: Headings of `--help` to settings that only some models or formats take.
        json: What `--json` prints, of a command that takes it beside its settings.
        bf16: Whether it takes `--bf16`.
        reads_model: Whether it only reads the model that it is given, which may be published.
    """

    summary: str
    run: Callable[[argparse.Namespace], int | None]
    settings: type[Settings] | Mapping[str, tuple[type[Settings], str]]
    dest: str = ""
    metavar: str = ""
    kinds: tuple[tuple[str | None, type[Settings]], ...] = ()
    json: bool = False
    bf16: bool = False
    reads_model: bool = False

    def add_to(self, commands: Any, name: str) -> None:
        """Add it to the sub-commands of a parser."""
        if isinstance(self.settings, Mapping):
            own = add_command(commands, name, self.summary).add_subparsers(
                dest=self.dest, required=True, metavar=self.metavar
            )
            for each, (settings, summary) in self.settings.items():
                add_command(own, each, summary, settings)
            return
        parser = add_command(commands, name, self.summary, self.settings)
        for heading, settings in self.kinds:
            add_options(parser, settings, heading)
        if self.bf16:
            parser.add_argument(
                "--bf16", action="store_const", const="mixed_bfloat16", dest="dtype",
                help="matrix products in bfloat16",
            )  # fmt: skip
        if self.json:
            parser.add_argument("--json", action="store_true", help="print JSON")


COMMANDS = {
    "vocab": Command("Build a WordPiece vocabulary from text.", _vocab, VocabSettings),
    "examples": Command(
        "Make training examples of big corpora: raw text to shards, by an Apache Beam pipeline.",
        _examples, EXAMPLES, "family", "MODEL",
    ),
    "pretrain": Command(
        "Pretrain a model on raw text, or train one to translate.",
        _pretrain, FAMILIES, "family", "MODEL",
    ),
    "check": Command(
        "Show how labelled examples are read, and what looks wrong with them.",
        _check, CheckSettings,
    ),
    "finetune": Command(
        "Fine-tune a pretrained model on a task, or train a network on its frozen features.",
        _finetune, TASKS, "task", "TASK",
    ),
    "embed": Command(
        "Write one vector for each text of files; the same command again goes on where it stopped.",
        _embed, EmbedSettings, bf16=True, reads_model=True,
    ),
    "evaluate": Command(
        "Measure a model: on held-out text, translations, labelled examples, or what words mean.",
        _evaluate, ModelSettings, kinds=tuple((kind.of, kind) for kind in EVALUATIONS),
        json=True, bf16=True, reads_model=True,
    ),
    "export": Command(
        "Export a BERT or GPT as a pair of SavedModels, any other model as one.",
        _export, ExportSettings, reads_model=True, kinds=(
            (None, FormatSettings),
            *((kind.title.replace("`", ""), kind) for kind in FORMAT_SETTINGS),
        ),
    ),
    "inspect": Command(
        "Show what a SavedModel offers: what it takes and returns, and whether it can be "
        "fine-tuned.", _inspect, InspectSettings,
    ),
    "verify": Command(
        "Compare what tfnlp and transformers, or sentence-transformers, make of texts with the "
        "model of a folder; exit code 1 if they differ.", _verify, VerifySettings,
    ),
    "predict": Command(
        "Use a model: labels, tags, answers; words for masks, neighbours, text, translations; "
        "texts of an index. The model says which.", _predict, PredictionSettings,
        kinds=tuple((kind.of, kind) for kind in PREDICTIONS), bf16=True,
    ),
    "show": Command(
        "Show what is in a model, as a page: attention, layers, neighbours, a map of words.",
        _show, PICTURES, "picture", "PICTURE", reads_model=True,
    ),
    "serve": Command(
        "Serve an exported module: a page to try it out, and JSON over HTTP. Needs the extra "
        "serve.", _serve, ServeSettings,
    ),
    "plan": Command(
        "Compile a training step for a TPU, without one: its memory, its time, the batch that "
        "fits.", _plan, PlanSettings,
    ),
}  # fmt: skip
