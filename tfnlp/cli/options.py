"""Command-line options from settings, and settings from parsed options."""

import argparse
import dataclasses
import re
import sys
import typing
from collections.abc import Iterable
from typing import Any

from tfnlp.settings.options import FIRST, SELDOM, Settings, default_of, element_type, is_required


class FileName(str):
    """A string from the command line that names a file, a glob or a data set, never a text."""

    def __fspath__(self) -> str:
        return str(self)


class HelpFormatter(argparse.HelpFormatter):
    """Help whose options keep their order, wrapped at 100 columns.

    Of groups that are seldom needed it has the names alone, unless `--helpfull` asks for all.
    """

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)
        self._heading: str | None = None

    def start_section(self, heading: str | None) -> None:
        self._heading = heading
        super().start_section(heading)

    def add_arguments(self, actions: Iterable[argparse.Action]) -> None:
        if self._heading in SELDOM and "--helpfull" not in sys.argv:
            names = " ".join(action.option_strings[0] for action in actions)
            self.add_text(f"{names}; see --helpfull")
        else:
            super().add_arguments(actions)


def add_command(
    commands: Any, name: str, summary: str, config: type[Settings] | None = None
) -> argparse.ArgumentParser:
    """Add a sub-command with the options of a config; return its parser."""
    parser = commands.add_parser(
        name,
        help=summary.replace("%", "%%"),
        description=summary,
        formatter_class=HelpFormatter,
    )
    if config is not None:
        add_options(parser, config)
    return parser


def add_options(
    parser: argparse.ArgumentParser, config: type[Settings], heading: str | None = None
) -> None:
    """Add an option for each field of a config dataclass, under the headings of its groups.

    Those without a group stand under `heading`, if it is given: one of several kinds of settings
    that the command takes, so that none must be given. Options that other settings of the
    command have, too, are added once, with the help of each. Options that are not given stay out
    of the namespace: `config_of` tells them from the others.
    """
    hints = typing.get_type_hints(config)
    known = parser.get_default("config_classes") or ()
    there = {_word(field) for one in known for field in dataclasses.fields(one)}
    groups: dict[str, Any] = {} if heading else {"": parser}
    for field in sorted(dataclasses.fields(config), key=_place):
        if _word(field) in there:
            _add_help(parser, field, heading)
            continue
        group = field.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group or heading)
        _add_option(groups[group], field, hints[field.name], is_required(field) and not heading)
    parser.set_defaults(config_classes=(*known, config))


def _word(field: dataclasses.Field) -> str:
    """Return what names an argument of the command."""
    return field.name if field.metadata["positional"] else flag_of(field)


def _place(field: dataclasses.Field) -> int:
    """Return where an option stands: required ones first, then what people change first."""
    return 0 if is_required(field) else 1 if field.metadata["group"] == FIRST else 2


def _add_option(group: Any, field: dataclasses.Field, hint: Any, required: bool) -> None:
    metadata = field.metadata
    kind, many, _ = element_type(hint)
    files = metadata["metavar"] == "FILE" and kind is object
    more: dict[str, Any] = {"help": _help(field), "default": argparse.SUPPRESS}
    if kind is bool:
        more["action"] = "store_true"
    elif metadata["const"] == "append":
        more.update(action="append", type=FileName)
    elif metadata["const"] is not None:
        more.update(action="store_const", const=metadata["const"])
    else:
        if many or files:
            more["nargs"] = "*" if metadata["positional"] and not is_required(field) else "+"
        elif metadata["positional"] and not is_required(field):
            more["nargs"] = "?"
        more["type"] = FileName if files else kind if kind in (int, float) else str
        if metadata["choices"]:
            more["choices"] = list(metadata["choices"])
    if metadata["metavar"] and more.get("action") not in ("store_true", "store_const"):
        more["metavar"] = metadata["metavar"]
    if metadata["positional"]:
        group.add_argument(field.name, **more)
        return
    if required:
        more["required"] = True
    group.add_argument(flag_of(field), dest=field.name, **more)


def _add_help(
    parser: argparse.ArgumentParser, field: dataclasses.Field, heading: str | None
) -> None:
    """Add to the help of an option what it means for another kind of settings."""
    for action in parser._actions:
        same = _word(field) in (action.dest, *action.option_strings)
        if same and not field.metadata["positional"] and not action.help.endswith(_help(field)):
            action.help += f"; of {heading}: {_help(field)}"


def _help(field: dataclasses.Field) -> str:
    """Return the help of a field with its default, if there is one to show."""
    text = field.metadata["help"].replace("%", "%%")
    default = None if is_required(field) else default_of(field)
    if default is None or default is False or default in ("", []):
        return text
    shown = " ".join(map(str, default)) if isinstance(default, list) else default
    return f"{text} (default: {shown})"


def flag_of(field: dataclasses.Field) -> str:
    """Return the option of a field."""
    return field.metadata["flag"] or f"--{field.name.replace('_', '-')}"


def config_of(options: argparse.Namespace, config: type[Settings] | None = None) -> Any:
    """Return the settings of a class, the last of the command's, that its options give."""
    config = config or options.config_classes[-1]
    names = {field.name for field in dataclasses.fields(config)}
    given = {name: value for name, value in vars(options).items() if name in names}
    return config.make(**given)


def with_flags(message: str, classes: tuple[type[Settings], ...]) -> str:
    """Return a message in which the arguments in backticks are options of the command."""
    flags = {field.name: _word(field) for config in classes for field in dataclasses.fields(config)}
    return re.sub(r"`(\w+)`", lambda match: flags.get(match[1], match[0]), message)
