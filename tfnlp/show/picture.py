"""A figure of plotly with the numbers behind it."""

import dataclasses
import os
from types import ModuleType
from typing import Any

from tfnlp.checkpoints import Pretrained
from tfnlp.extras import needed
from tfnlp.files import given_path, written_whole
from tfnlp.runs.front_door import load
from tfnlp.runs.task_run import TaskRun


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class Picture:
    """What a function of `tfnlp.show` returns.

    Attributes:
        figure: The `plotly.graph_objects.Figure`.
        values: The numbers that it shows, see the function.
        text: The same in lines.
    """

    figure: Any
    values: Any
    text: str

    def __str__(self) -> str:
        return self.text

    def _ipython_display_(self) -> None:
        self.figure.show()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a page, one file that needs no network.

        Raises:
            ValueError: for a path that does not end in .html.
            OSError: if it can't be written.
        """
        path = given_path(path, "output")
        if not path.endswith(".html"):
            raise ValueError(f"`output` {path} must end in .html")
        with written_whole(path) as partial:
            self.figure.write_html(partial, include_plotlyjs=True)


def plotly(module: str = "graph_objects") -> ModuleType:
    """Return a module of plotly."""
    return needed(f"plotly.{module}", "plotly", "pictures", "a picture")


def loaded_model(model: Any) -> Pretrained | TaskRun:
    """Return a model of a path or a name, or one that is loaded.

    Raises:
        ValueError: for anything but a pretrained or a fine-tuned model, whose layers can be read.
    """
    loaded = load(model) if isinstance(model, str | os.PathLike) else model
    if not isinstance(loaded, Pretrained | TaskRun):
        raise ValueError(f"`model` {model!r:.80} must be a pretrained or a fine-tuned model")
    if isinstance(loaded, Pretrained):
        loaded.family.check_weights(loaded)
    return loaded


def name_of(model: Pretrained | TaskRun) -> str:
    """Return the last part of a model's path, for a title."""
    return os.path.basename(os.path.normpath(model.path))


def finished(figure: Any, title: str, width: float, height: float) -> Any:
    """Return a figure of a size in pixels with its title, on a white ground."""
    return figure.update_layout(
        title={"text": title, "font_size": 15, "x": 0.01, "xanchor": "left", "y": 0.985,
               "yanchor": "top"},
        template="plotly_white", width=round(width), height=round(height),
        margin={"l": 90, "r": 30, "t": 70, "b": 50},
    )  # fmt: skip
