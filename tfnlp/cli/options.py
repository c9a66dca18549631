"""Command-line options from settings, and settings from parsed options."""

import argparse
import dataclasses
import re
import typing
from typing import Any

from tfnlp.settings.options import Settings, default_of, element_type, is_required


class FileName(str):
    """A string from the command line that names a file, a glob or a data set, never a text."""

    def __fspath__(self) -> str:
        return str(self)


class HelpFormatter(argparse.HelpFormatter):
    """Help whose options keep their order, wrapped at 100 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28, width=100)


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


def add_options(parser: argparse.ArgumentParser, config: type[Settings]) -> None:
    """Add an option for each field of a config dataclass, under the headings of its groups.

    Options that are not given stay out of the namespace: `config_of` tells them from the others.
    """
    hints = typing.get_type_hints(config)
    groups: dict[str, Any] = {"": parser}
    for field in sorted(dataclasses.fields(config), key=lambda f: not is_required(f)):
        if field.metadata["hidden"]:
            continue
        group = field.metadata["group"]
        if group not in groups:
            groups[group] = parser.add_argument_group(group)
        _add_option(groups[group], field, hints[field.name])
    parser.set_defaults(config_class=config)


def _add_option(group: Any, field: dataclasses.Field, hint: Any) -> None:
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
        more["type"] = FileName if files else kind if kind in (int, float) else str
        if metadata["choices"]:
            more["choices"] = list(metadata["choices"])
    if metadata["metavar"] and more.get("action") not in ("store_true", "store_const"):
        more["metavar"] = metadata["metavar"]
    if metadata["positional"]:
        group.add_argument(field.name, **more)
        return
    if is_required(field):
        more["required"] = True
    group.add_argument(flag_of(field), dest=field.name, **more)


def _help(field: dataclasses.Field) -> str:
    """Return the help of a field with its default, if there is one to show."""
    text = field.metadata["help"].replace("%", "%%")
    default = None if is_required(field) else default_of(field)
    if default is None or default is False or default in ("", []):
        return text
    shown = " ".join(map(str, default)) if isinstance(default, list) else default
    return f"{text} (default: {shown})"


def add_bf16(parser: argparse.ArgumentParser) -> None:
    """Add `--bf16` to a command that uses a model, unless its config has one."""
    fields = dataclasses.fields(parser.get_default("config_class"))
    if "bf16" not in {field.name for field in fields}:
        parser.add_argument(
            "--bf16", action="store_const", const="mixed_bfloat16", dest="dtype",
            help="matrix products in bfloat16",
        )  # fmt: skip


def flag_of(field: dataclasses.Field) -> str:
    """Return the option of a field."""
    return field.metadata["flag"] or f"--{field.name.replace('_', '-')}"


def config_of(options: argparse.Namespace) -> Any:
    """Return the config that the options of a command give, see `add_options`."""
    names = {field.name for field in dataclasses.fields(options.config_class)}
    given = {name: value for name, value in vars(options).items() if name in names}
    return options.config_class.make(**given)


def with_flags(message: str, config: type[Settings] | None) -> str:
    """Return a message in which the arguments in backticks are options of the command."""
    if config is None:
        return message
    flags = {
        field.name: field.name if field.metadata["positional"] else flag_of(field)
        for field in dataclasses.fields(config)
    }
    return re.sub(r"`(\w+)`", lambda match: flags.get(match[1], match[0]), message)
