"""Model cards: the README.md that an export has, with what is known of the model.

Inside `card_of_export` everything that is written as a folder, SavedModels and others, gets the
card, with the lines that call what is in that folder.
"""

import contextlib
import contextvars
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tfnlp import __version__
from tfnlp.files import name_when_whole, write_lines

CARD = "README.md"
_LONGEST = 2**16  # bytes of a card that are read
_LICENCE = re.compile(r"^license:\s*[\"']?([\w.+-]{1,40})[\"']?\s*$", re.MULTILINE)
_FACT = re.compile(r"^- \*\*(.{1,60}?):\*\* (.+)$")
_UNKNOWN = "not stated"


@dataclass(frozen=True)
class Card:
    """What is known of a model.

    Attributes:
        summary: one sentence, what it is.
        base: the model that it was made from, a name; "": none.
        licence: of the base model, None if it is not known.
        data: lines about the training data.
        recipe: settings of the training.
        measures: numbers by name.
        measured_on: what they are of.
        pipeline: Hugging Face's name of the task, or None.
    """

    summary: str
    base: str = ""
    licence: str | None = None
    data: tuple[str, ...] = ()
    recipe: Mapping[str, Any] = field(default_factory=dict)
    measures: Mapping[str, float] = field(default_factory=dict)
    measured_on: str = ""
    pipeline: str | None = None

    def facts(self) -> dict[str, str]:
        """Return what a reader looks for first, by name."""
        return {
            "base model": self.base or "none: pretrained from new weights",
            "licence": f"{self.licence} (the base model's)" if self.licence else _UNKNOWN,
            "data": "; ".join(self.data) or _UNKNOWN,
            "measures": self._measures() or _UNKNOWN,
            "written by": f"tfnlp {__version__}",
        }

    def text(self, name: str, call: str = "", front: str = "") -> str:
        """Return the card in Markdown: after `front` that of a model, with how to call it."""
        facts = self.facts().items()
        parts = [f"# {_line(name)}", _line(self.summary)]
        parts.append("\n".join(f"- **{key}:** {_line(value)}" for key, value in facts))
        if call:
            parts += ["## How to call it", call]
        parts += _table("Recipe", "setting", self.recipe)
        parts += _table(f"Measures: {self.measured_on}".rstrip(": "), "measure", self.measures)
        return front + "\n\n".join(parts) + "\n"

    def _measures(self) -> str:
        shown = [f"{name} {_number(value)}" for name, value in self.measures.items()]
        if not shown:
            return ""
        more = f", {len(shown) - 6} more below" if len(shown) > 6 else ""
        on = f" ({self.measured_on})" if self.measured_on else ""
        return ", ".join(shown[:6]) + more + on

    def front_matter(self, name: str) -> str:
        """Return the metadata that Hugging Face reads from the beginning of a card, YAML."""
        lines = ["---", "library_name: transformers"]
        if self.licence is not None:
            lines.append(f"license: {json.dumps(self.licence)}")
        if self.base.startswith("hf://"):
            base = self.base.removeprefix("hf://").partition("@")[0]
            lines.append(f"base_model: {json.dumps(base)}")
        if self.pipeline is not None:
            lines.append(f"pipeline_tag: {self.pipeline}")
        if self.measures and self.pipeline is not None:
            metrics = [{"type": key, "value": value} for key, value in self.measures.items()]
            data = self.measured_on or "not stated"
            result = {
                "task": {"type": self.pipeline},
                "dataset": {"name": data, "type": data},
                "metrics": metrics,
            }
            # JSON is YAML.
            lines.append(f"model-index: {json.dumps([{'name': name, 'results': [result]}])}")
        return "\n".join([*lines, "---", "", ""])


_current: contextvars.ContextVar[Card | None] = contextvars.ContextVar("card", default=None)


@contextlib.contextmanager
def card_of_export(card: Card) -> Iterator[None]:
    """Give all folders that are written inside the context this card."""
    token = _current.set(card)
    try:
        yield
    finally:
        _current.reset(token)


def current_card() -> Card | None:
    """Return the card of the export that is going on, or None."""
    return _current.get()


def folder_card(folder: str, directory: str) -> str | None:
    """Return the card of files for other libraries; None if there is no export with a card.

    They are in `folder` now and will be in `directory`.
    """
    card, name = current_card(), name_of(directory)
    if card is None:
        return None
    config = _read_json(os.path.join(folder, "config.json"))
    classes = config.get("architectures")
    if isinstance(classes, list) and len(classes) == 1:
        code = (
            f"from transformers import AutoTokenizer, {classes[0]}\n\n"
            f"tokenizer = AutoTokenizer.from_pretrained({json.dumps(name)})\n"
            f"model = {classes[0]}.from_pretrained({json.dumps(name)})\n"
            'outputs = model(**tokenizer("a text", return_tensors="pt"))'
        )
        return card.text(name, f"```python\n{code}\n```", card.front_matter(name))
    if os.path.exists(os.path.join(folder, "example.py")):
        return card.text(name, "`python example.py`; the graph takes ids, not strings.")
    return card.text(name)


def read_card(folder: str) -> dict[str, str]:
    """Return title, summary and facts of the README.md of a folder; {} if it has none."""
    _, text = _read_parts(folder)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    titles = [line for line in lines if line.startswith("# ")]
    found = {} if not titles else {"title": titles[0].removeprefix("# ")[:200]}
    plain = [line for line in lines if line[0] not in "#-|`<!["]
    if plain:
        found["summary"] = plain[0][:400]
    for line in lines:
        if match := _FACT.match(line):
            found.setdefault(match[1], match[2][:400])
    return found


def write_section(folder: str, title: str, text: str) -> None:
    """Write a section of the README.md of a folder, in place of an earlier one of the title."""
    path, heading = os.path.join(folder, CARD), f"## {title}\n"
    card = f"# {name_of(folder)}\n"
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            card = file.read()
    before, _, rest = card.partition(f"\n{heading}")
    _, mark, after = rest.partition("\n## ")
    parts = [
        before.rstrip("\n"),
        "",
        heading,
        text,
        *(["", f"## {after}".rstrip("\n")] if mark else []),
    ]
    write_lines(path, parts)


def licence_of(folder: str | os.PathLike | None) -> str | None:
    """Return the licence that the README.md of a folder states as metadata, or `config.json`."""
    if folder is None or not os.path.isdir(folder):
        return None
    metadata, _ = _read_parts(folder)
    if match := _LICENCE.search(metadata):
        return match[1]
    stated = _read_json(os.path.join(folder, "config.json")).get("license")
    return stated if isinstance(stated, str) and re.fullmatch(r"[\w.+-]{1,40}", stated) else None


def _read_parts(folder: str | os.PathLike) -> tuple[str, str]:
    """Return the metadata and the rest of the README.md of a folder, "" where there is none."""
    try:
        with open(os.path.join(folder, CARD), "rb") as file:
            text = file.read(_LONGEST).decode("utf-8", "replace")
    except OSError:
        text = ""
    if not text.startswith("---\n"):
        return "", text
    metadata, _, text = text.partition("\n---\n")
    return metadata, text


def _table(title: str, head: str, values: Mapping[str, Any]) -> list[str]:
    if not values:
        return []
    rows = [f"| {_line(key)} | {_line(_number(value))} |" for key, value in values.items()]
    return [f"## {_line(title)}", "\n".join([f"| {head} | value |", "|---|---|", *rows])]


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else str(value)


def name_of(directory: str) -> str:
    """Return the name of a model in a folder: of `bert/encoder` and `bert/3` it is "bert"."""
    folder, name = os.path.split(os.path.abspath(directory))
    if name in ("encoder", "model", "preprocessor") or name.isdecimal():
        return name_when_whole(folder) or name
    return name


def _line(text: str) -> str:
    """Return text as one line that no Markdown table breaks on."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split()).replace("|", "/")


def _read_json(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(2**20))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def shown_name(path: str) -> str:
    """Return the name of a published model, or the last part of a path: it is of one machine."""
    return path if not path or "://" in path else os.path.basename(os.path.normpath(path))


def base_of(loaded: Any) -> tuple[str, str | None]:
    """Return the name and the licence of a model that something is made of."""
    path = str(loaded.path or "")
    return shown_name(path), licence_of(loaded.folder or path or None)


def data_lines(corpus: Any) -> tuple[str, ...]:
    """Return what a run recorded of its text: sizes and checksums, a line."""
    if not isinstance(corpus, dict):
        return ()
    lines = []
    for name, value in corpus.items():
        if name in ("crc32", "dev") and isinstance(value, int):
            lines.append(f"{'dev ' * (name == 'dev')}CRC-32 {value:08x}")
        elif isinstance(value, int | float):
            lines.append(f"{value:,} {name}")
        elif isinstance(value, str):
            lines.append(f"{name} {value}")
    return tuple(lines)


def card_of(loaded: Any) -> Card:
    """Return the card of a pretrained model: of a run what it recorded, of others what is known."""
    title = loaded.family.title
    if loaded.run is None:
        base, licence = base_of(loaded)
        return Card(f"The weights of {title}, from {base}.", base, licence)
    return card_of_run(title, loaded.run, loaded.history)


def card_of_run(title: str, run: Mapping[str, Any], history: Any = None) -> Card:
    """Return the card of a pretraining run of a family, from its `config.json` and `History`."""
    training = dict(run.get("training") or {})
    begun = training.get("from")
    base = "" if begun is None else shown_name(str(begun))
    rows = [] if history is None else history.validation
    measures, on = {}, ""
    names = [name for row in rows[-1:] for name in row if name != "step"]
    if names:
        monitor = "loss" if "loss" in names else names[0]
        best = history.best_step(monitor)
        row = next(row for row in rows if row["step"] == best)
        measures = {k: v for k, v in row.items() if k != "step" and isinstance(v, float | int)}
        on = f"held-out text, step {best}"
    version = f" {run['tfnlp']}" if "tfnlp" in run else ""
    return Card(
        f"{title[0].upper()}{title[1:]}, pretrained by tfnlp{version}.",
        base,
        None,
        data_lines(run.get("corpus") or run.get("data")),
        {**(run.get("arguments") or {}), **training},
        measures,
        on,
    )
