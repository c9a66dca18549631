"""Settings dataclasses: the one place of an argument's name, type, default, range and help.

The options of the command, the keywords of the Python functions, the checks of their values and
the settings in a run's `config.json` all follow from the fields of these classes.
"""

import dataclasses
import difflib
import html
import math
import os
import re
import sys
import types
import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Self

# Names that people know from transformers, sentence-transformers, peft and Keras, and ours: the
# first of them that there is. A sampler is keras-hub's.
ELSEWHERE: dict[str, tuple[str, ...]] = {
    "num_train_epochs": ("epochs",), "num_epochs": ("epochs",), "max_steps": ("steps",),
    "per_device_train_batch_size": ("batch_size",), "per_device_eval_batch_size": ("batch_size",),
    "train_batch_size": ("batch_size",), "gradient_accumulation_steps": ("accumulation",),
    "lr": ("learning_rate",), "warmup_ratio": ("warmup",), "warmup_steps": ("warmup",),
    "lr_scheduler_type": ("schedule",), "optim": ("optimizer",), "max_grad_norm": ("clip_norm",),
    "clipnorm": ("clip_norm",), "global_clipnorm": ("clip_norm",),
    "max_seq_length": ("max_length", "seq_length"), "max_len": ("max_length", "seq_length"),
    "block_size": ("seq_length", "max_length"), "seq_length": ("max_length",),
    "max_length": ("seq_length",), "doc_stride": ("stride",),
    "label_smoothing_factor": ("label_smoothing",), "class_weight": ("class_weights",),
    "output_dir": ("output",), "overwrite_output_dir": ("restart", "overwrite"),
    "model_name_or_path": ("model", "start"), "train_dataset": ("train", "text"),
    "train_file": ("train", "text"), "eval_dataset": ("dev", "valid"),
    "validation_data": ("dev", "valid"), "validation_file": ("dev", "valid"),
    "validation_split": ("held_out",), "seed": ("seeds",), "random_state": ("seed", "seeds"),
    "save_steps": ("checkpoint_every",), "save_total_limit": ("keep",),
    "eval_steps": ("evaluate_every",), "metric_for_best_model": ("metric",),
    "early_stopping_patience": ("patience",), "gradient_checkpointing": ("remat",),
    "jit_compile": ("jit",), "hidden_dropout_prob": ("dropout",),
    "num_hidden_layers": ("num_layers",), "num_attention_heads": ("num_heads",),
    "max_position_embeddings": ("max_positions",), "lora_r": ("lora",), "r": ("lora",),
    "target_modules": ("lora_matrices",), "num_beams": ("beams",), "sampler": ("temperature",),
}  # fmt: skip
FIRST = "changed first"  # the group of what most people change
SELDOM = ("devices", "teacher", "parts of the model")  # groups that few people need
# Commands to what they make, to its settings; `tfnlp.settings.tables` fills it in.
OWNERS: dict[str, dict[str, type["Settings"]]] = {}


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    group: str = "",
    flag: str | None = None,
    choices: Sequence[str] | None = None,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    metavar: str | None = None,
    record: str | None = None,
    record_as: str | None = None,
    positional: bool = False,
    const: Any = None,
) -> Any:
    """Return a dataclass field that describes one argument.

    Args:
        default: Its default; without one the argument is required.
        help: One line for `--help`.
        group: The heading of `--help` under which it stands.
        flag: The command's option; by default the field's name with dashes.
        choices: The permitted strings.
        at_least, above, at_most, below: Limits of numbers.
        metavar: The placeholder in `--help`.
        record: The section of a run's `config.json` that keeps the value: the arguments that
            decide which numbers a run ends with.
        record_as: The key there, if it is not the field's name.
        positional: The command takes it without an option.
        const: The value that the option without a value stands for.
    """
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    metadata = dict(
        help=help, group=group, flag=flag, choices=choices, limits=limits, metavar=metavar,
        record=record, record_as=record_as, positional=positional, const=const,
    )  # fmt: skip
    if isinstance(default, list | dict):
        return dataclasses.field(default_factory=lambda: default.copy(), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(option,))
@dataclasses.dataclass
class Settings:
    """Base of all settings; the classes below it are dataclasses without being said to be.

    What follows the bases of a class changes options that it inherits: a new default, or a dict of
    arguments of `option`, as in `class Small(Large, size=8, steps={"help": "few"})`.

    Attributes:
        given: Names of the arguments that were given, as opposed to left at their defaults.
    """

    given: typing.ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, **changes: Any) -> None:
        hints = typing.get_type_hints(cls) if changes else {}
        for name, new in changes.items():
            every = (base.__dict__.get("__dataclass_fields__", {}) for base in cls.__mro__)
            old = next(fields[name] for fields in every if name in fields)
            new = dict(new) if isinstance(new, dict) else {"default": new}
            default = {"default": old.default, "default_factory": old.default_factory}
            if "default" in new:
                default = {"default": new.pop("default")}
            cls.__annotations__[name] = hints[name]
            setattr(cls, name, dataclasses.field(**default, metadata={**old.metadata, **new}))
        dataclasses.dataclass(kw_only=True)(cls)

    @classmethod
    def make(cls, **arguments: Any) -> Self:
        """Return checked settings that remembers which arguments were given.

        Raises:
            ValueError: for an unknown or missing argument, a wrong type, a value out of range, or
                `-` or nothing in place of a file.
        """
        fields = {field.name: field for field in dataclasses.fields(cls)}
        for name in arguments:
            if name not in fields:
                raise ValueError(cls.refusal(name))
        for name, field in fields.items():
            if name not in arguments and is_required(field):
                raise ValueError(f"the argument `{name}` is missing: {field.metadata['help']}")
        hints = typing.get_type_hints(cls)
        given = {
            name: _expanded(_plain(value, hints[name]), fields[name], hints[name])
            for name, value in arguments.items()
        }
        config = cls(**given)
        config.given = frozenset(given)
        config.check()
        return config

    @classmethod
    def refusal(cls, name: str) -> str:
        """Return what is said of an argument that is no field: the nearest one, or whose it is."""
        fields = names_of(cls)
        near = [ours for ours in ELSEWHERE.get(name, ()) if ours in fields]
        others = None if near else _owners(cls, name)
        if others:
            return others
        near = near or difflib.get_close_matches(name, fields, 1)
        more = f" and {len(fields) - 12} more" if len(fields) > 12 else ""
        known = f"known are {', '.join(fields[:12])}{more}"
        return f"there is no argument {name}; {f'did you mean {near[0]}?' if near else known}"

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some values changed; `given` stays."""
        copy = dataclasses.replace(self, **changes)
        copy.given = self.given
        return copy

    def refuse(self, names: Sequence[str], why: str) -> None:
        """Refuse arguments that were given, and would change nothing."""
        for name in names:
            value = getattr(self, name, None)
            if name in self.given and value is not None and value is not False:
                raise ValueError(f"`{name}` {why}")

    def check(self) -> None:
        """Check types, choices and limits of all fields."""
        hints = typing.get_type_hints(type(self))
        for field in dataclasses.fields(self):
            check_value(field.name, getattr(self, field.name), hints[field.name], field.metadata)

    @classmethod
    def described(cls) -> "Described":
        """Return each argument with its meaning and its default."""
        found = Described()
        for field in dataclasses.fields(cls):
            default = "required" if is_required(field) else f"default {default_of(field)!r}"
            found[field.name] = f"{field.metadata['help']} ({default})"
        return found

    def recorded(self, section: str) -> dict[str, Any]:
        """Return the values that `config.json` keeps in `section`."""
        return {
            field.metadata["record_as"] or field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.metadata.get("record") == section
        }


class Described(dict[str, str]):
    """Names of arguments and what they mean; printed, and shown in a notebook, as a table."""

    def __str__(self) -> str:
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}s}  {meaning}" for name, meaning in self.items())

    def _repr_html_(self) -> str:
        rows = (
            f"<tr><td><code>{name}</code></td><td>{html.escape(meaning)}</td></tr>"
            for name, meaning in self.items()
        )
        return f"<table>{''.join(rows)}</table>"


def with_summaries(
    kinds: Mapping[str, type[Settings]],
) -> dict[str, tuple[type[Settings], str]]:
    """Return settings by name with the first lines of their docstrings."""
    return {name: (kind, (kind.__doc__ or "").split("\n")[0]) for name, kind in kinds.items()}


def names_of(cls: type[Settings]) -> list[str]:
    """Return the names of the arguments."""
    return [field.name for field in dataclasses.fields(cls)]


def _owners(cls: type[Settings], name: str) -> str | None:
    """Return who has an argument that these settings lack, those of the same command first."""
    of = [(command, one) for command, kinds in OWNERS.items() for one in kinds if kinds[one] is cls]
    for command, one in of:
        for other in sorted(OWNERS, key=lambda other: other != command):
            owners = [owner for owner, kind in OWNERS[other].items() if name in names_of(kind)]
            if owners:
                whose = f"{'' if other == command else f'{other} '}{', '.join(owners)}"
                takes = "does" if len(owners) == 1 else "do"
                return f"{command} {one} takes no `{name}`; {whose} {takes}"
    return None


def subclasses(cls: type) -> list[type]:
    """Return all classes below a class, each before its own."""
    return [each for child in cls.__subclasses__() for each in (child, *subclasses(child))]


def _plain(value: Any, hint: Any) -> Any:
    """Return numpy's numbers, strings and arrays as Python's, where the field holds such."""
    if element_type(hint)[0] is object:  # rows and models are as they are
        return value
    if isinstance(value, list | tuple):
        return [_plain(one, hint) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _expanded(value: Any, field: dataclasses.Field, hint: Any) -> Any:
    """Return the value of an argument with the home folder in place of `~` in paths.

    They are strings, but for files of text: there a string may be a text, and a path is none.
    """
    kind = field.metadata["metavar"]
    if kind not in ("DIR", "FILE", "PNG"):
        return value
    if isinstance(value, list):  # of paths; plain strings in it may be texts
        return [_home(one, field) if isinstance(one, os.PathLike) else one for one in value]
    if not isinstance(value, str | os.PathLike):
        return value
    path = _home(value, field)
    if kind == "DIR" and element_type(hint)[0] is object:  # a model
        path = model_place(path)
    return path if kind == "FILE" and element_type(hint)[0] is object else os.fspath(path)


_BARE_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*(@[^@\s/]+)?", re.ASCII)
_FILE_NAME = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,9}$")


def model_place(path: Any) -> Any:
    """Return `hf://org/name` of a string "org/name", and say so; all else as it is.

    What is here comes first: a file or folder of that name, or a folder `org`.
    """
    bare = isinstance(path, str) and _BARE_NAME.fullmatch(path) and not _FILE_NAME.search(path)
    if not bare or os.path.exists(path) or os.path.exists(path.split("/")[0]):
        return path
    print(f"{path} is no folder here: taken as hf://{path}", file=sys.stderr, flush=True)
    return f"hf://{path}"


def one_of(argument: str, value: Any, names: Collection[Any]) -> str:
    """Return what is said of a value that is none of some names, with the nearest of them."""
    names = list(map(str, names))
    near = difflib.get_close_matches(value, names, 1) if isinstance(value, str) else ()
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"`{argument}` {value!r:.60} must be one of {', '.join(names)}{hint}"


def _home(path: Any, field: dataclasses.Field) -> Any:
    """Return a path of the same type."""
    if not os.fspath(path):
        raise ValueError(f"`{field.name}` is empty; give a path, . for the current folder")
    if os.fspath(path) == "-":
        raise ValueError(f"`{field.name}` -: standard input is not read here; give a file")
    expanded = os.path.expanduser(path)
    return path if expanded == os.fspath(path) else type(path)(expanded)


def is_required(field: dataclasses.Field) -> bool:
    """Return whether the field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def default_of(field: dataclasses.Field) -> Any:
    """Return the default of a field that is not required."""
    made = field.default_factory
    return field.default if made is dataclasses.MISSING else made()


def element_type(hint: Any) -> tuple[type, bool, bool]:
    """Return the type of a field's value, whether it is a list, and whether None is allowed."""
    optional = many = False
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        members = [m for m in typing.get_args(hint) if m is not type(None)]
        optional = len(members) < len(typing.get_args(hint))
        hint = members[0] if len(members) == 1 else Any
    if typing.get_origin(hint) is list:
        many, hint = True, typing.get_args(hint)[0]
    return (hint if hint in _KINDS else object), many, optional


def check_value(name: str, value: Any, hint: Any, metadata: Mapping[str, Any]) -> None:
    """Check one value against the type of its field, its choices and its limits."""
    kind, many, optional = element_type(hint)
    if value is None and optional:
        return
    if kind is object and metadata.get("metavar") == "DIR" and isinstance(value, _NO_MODEL):
        raise ValueError(f"`{name}` {value!r:.60} must be a path, a name or a loaded model")
    values = list(value) if many and isinstance(value, list | tuple) else [value]
    for one in values:
        if kind is float and type(one) is int:
            continue
        # bool is an int to Python, but not to the user.
        if not isinstance(one, kind) or (kind in (int, float) and isinstance(one, bool)):
            raise ValueError(f"`{name}` {one!r} must be {_KINDS.get(kind, kind.__name__)}")
        if kind is float and not math.isfinite(one):
            raise ValueError(f"`{name}` {one} must be a finite number")
        largest = max(_LARGEST, metadata.get("limits", {}).get("at most") or 0)
        if kind is int and abs(one) > largest:
            raise ValueError(f"`{name}` {one} must be at most {largest}")
    choices = metadata.get("choices")
    for one in values:
        if choices and one not in choices:
            raise ValueError(one_of(name, one, choices))
        for limit, bound in metadata.get("limits", {}).items():
            if bound is not None and not _HOLDS[limit](one, bound):
                raise ValueError(f"`{name}` {one} must be {_wanted(metadata['limits'])}")


_NO_MODEL = (int, float, bytes, list, tuple, dict)
_LARGEST = 2**32 - 1  # the largest seed that numpy takes; no size comes near it
_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a string"}
_HOLDS = {
    "at least": lambda value, bound: value >= bound,
    "above": lambda value, bound: value > bound,
    "at most": lambda value, bound: value <= bound,
    "below": lambda value, bound: value < bound,
}


def _wanted(limits: Mapping[str, float | None]) -> str:
    low, high = limits["at least"], limits["at most"] or limits["below"]
    if low is not None and high is not None:
        return f"between {low:g} and {high:g}"
    if low == 0:
        return "0 or more"
    return " and ".join(f"{name} {bound:g}" for name, bound in limits.items() if bound is not None)
