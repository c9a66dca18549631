"""tfnlp: from text to pretrained language models to SavedModels that anyone can fine-tune.

    bert = tfnlp.load("bert-folder")
    run = tfnlp.pretrain("bert", text="corpus.txt", output="run", size="mini", steps=20_000)
    task = tfnlp.finetune("classify", run, train=rows, output="task")
    task.predict(["so good"])
    task.export("module")

`import tfnlp` loads neither TensorFlow nor Keras: the names load on first use. The packages
(`tfnlp.layers`, `tfnlp.models`, `tfnlp.text`, `tfnlp.data`, `tfnlp.objectives`, `tfnlp.tasks`,
`tfnlp.training`, `tfnlp.checkpoints`, `tfnlp.hub`, `tfnlp.show`) are imported one by one.
"""

import importlib
from typing import TYPE_CHECKING, Any

from tfnlp.keras_registration import register_layers
from tfnlp.settings.options import one_of  # before the function `settings`, see below

if TYPE_CHECKING:
    from tfnlp.runs.estimators import Embedder, Tagger, TextClassifier
    from tfnlp.runs.front_door import (
        check,
        embed,
        export,
        finetune,
        inspect,
        load,
        pretrain,
        use_engine,
        verify,
    )

__version__ = "0.1.0"

_PACKAGES = (
    "checkpoints", "data", "hub", "layers", "models", "objectives", "show", "tasks", "text",
    "training",
)  # fmt: skip

_ESTIMATORS = ("Embedder", "Tagger", "TextClassifier")

__all__ = [
    "Embedder",
    "Tagger",
    "TextClassifier",
    "__version__",
    "check",
    "embed",
    "export",
    "finetune",
    "inspect",
    "load",
    "pretrain",
    "settings",
    "use_engine",
    "verify",
]


def settings(name: str) -> dict[str, str]:
    """Return the settings of a family or a task: each name with its default and its meaning.

    Args:
        name: A family of `tfnlp.pretrain` or a task of `tfnlp.finetune`.

    Raises:
        ValueError: for another name.
    """
    from tfnlp.settings.tables import FAMILIES, TASKS

    classes = {**FAMILIES, **TASKS}
    if name not in tuple(classes):
        raise ValueError(one_of("name", name, classes))
    return classes[name][0].described()


def __getattr__(name: str) -> Any:
    if name in __all__:
        module = "estimators" if name in _ESTIMATORS else "front_door"
        return getattr(importlib.import_module(f"tfnlp.runs.{module}"), name)
    if name in _PACKAGES:
        return importlib.import_module(f"tfnlp.{name}")
    raise AttributeError(f"module 'tfnlp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])


register_layers()
