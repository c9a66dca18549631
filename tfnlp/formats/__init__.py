"""Formats: the ways in which models are written for others, and read from them, a class each.

`export` and `recognised` are loops over one table, FORMATS. To add a format, write its class and
its settings (`tfnlp.settings.formats`), and put an instance into the table.
"""

from tfnlp.formats.format import Format, Place
from tfnlp.formats.savedmodel import Module
from tfnlp.formats.table import FORMATS, export, recognised, recognised_task, unknown

__all__ = [
    "FORMATS",
    "Format",
    "Module",
    "Place",
    "export",
    "recognised",
    "recognised_task",
    "unknown",
]
