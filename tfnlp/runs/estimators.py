"""Estimators of scikit-learn: fine-tuned models and vectors, for its pipelines and searches.

search = GridSearchCV(TextClassifier("run"), {"epochs": [2, 4]}).fit(texts, labels)
make_pipeline(Embedder("run"), LogisticRegression()).fit(texts, labels)
"""

import contextlib
import io
import os
import tarfile
import tempfile
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from tfnlp.data.rows import rows_of
from tfnlp.runs.front_door import finetune, load
from tfnlp.runs.task_run import TaskRun
from tfnlp.settings.options import Settings, names_of
from tfnlp.settings.tables import TASKS

_OWN = {"train", "dev", "output", "restart", "folds", "search"}  # what `fit` decides


def _check_model(model: Any) -> None:
    if not isinstance(model, str | os.PathLike):
        raise ValueError(
            f"`model` {model!r:.60} must be a path or a name such as hf://org/name: estimators are "
            "cloned and pickled"
        )


class _FineTuned(BaseEstimator):
    """What `fit` makes of a pretrained model: a run in a temporary folder."""

    task: ClassVar[str]

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self._given: dict[str, Any] = {}
        self.set_params(model=model, **settings)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the model and the settings that were given."""
        return {"model": self.model, **self._given}

    def set_params(self, **params: Any) -> Self:
        """Set the model or settings of the task.

        Raises:
            ValueError: for a name that is none of them.
        """
        kind: type[Settings] = TASKS[self.task][0]
        for name in params:
            if name in _OWN:
                raise ValueError(f"`{name}` is not for an estimator: `fit` makes a run of its own")
            if name not in names_of(kind):
                raise ValueError(kind.refusal(name))
        if "model" in params:
            _check_model(params["model"])
            self.model = params.pop("model")
        self._given.update(params)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Fine-tune the model; a share of the rows, `held_out`, picks the checkpoint.

        Args:
            X: N texts, pairs of texts or lists of words, in anything that `tfnlp.finetune` takes.
            y: N labels.

        Returns:
            the estimator, whose `run_` is the `TaskRun`.

        Raises:
            ValueError: for rows that can't be read, or settings out of range.
        """
        folder = tempfile.TemporaryDirectory()
        with contextlib.redirect_stdout(io.StringIO()):
            run = finetune(
                self.task, self.model, train=self._rows(X, y), output=folder.name, **self._given
            )
        self.run_, self._folder = run, folder  # which is deleted with the estimator
        return self

    def _rows(self, X: Any, y: Any) -> list[tuple[Any, ...]]:
        rows, labels = _columns(X), [label for _, label in rows_of(y, "y")]
        check_consistent_length(rows, labels)
        return [(*row, label) for row, label in zip(rows, labels, strict=True)]

    def _predictions(self, X: Any) -> list[dict[str, Any]]:
        check_is_fitted(self, "run_")
        rows = _columns(X)
        return self.run_.predict([row[0] if len(row) == 1 else row for row in rows])

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "run_" in state:
            del state["run_"], state["_folder"]
            files = io.BytesIO()
            with tarfile.open(fileobj=files, mode="w") as archive:
                archive.add(self.run_.folder, ".")
            state["_files"] = files.getvalue()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        super().__setstate__(state)
        if files is not None:
            self._folder = tempfile.TemporaryDirectory()
            with tarfile.open(fileobj=io.BytesIO(files)) as archive:
                archive.extractall(self._folder.name, filter="data")
            self.run_ = TaskRun(self._folder.name)


class TextClassifier(ClassifierMixin, _FineTuned):
    """A class for a text or a pair of texts, as the task "classify".

    Args:
        model: A pretrained model, a path or a name that `tfnlp.load` takes.
        settings: Those of the task (`tfnlp.settings("classify")`), such as `epochs`.

    Attributes:
        classes_: The labels, sorted.
        run_: The `TaskRun`, with `results`, `report` and `export`; its folder is deleted with the
            estimator.
    """

    task = "classify"

    def fit(self, X: Any, y: Any) -> Self:
        """See `_FineTuned.fit`."""
        super().fit(X, y)
        self.classes_ = np.unique([label for _, label in rows_of(y, "y")])
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of N texts, `[N, classes]`, in the order of `classes_`."""
        found, names = self._predictions(X), self.classes_.tolist()
        return np.array([[p["probabilities"].get(name, 0.0) for name in names] for p in found])

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each of N texts, `[N]`."""
        return np.array([p["label"] for p in self._predictions(X)], self.classes_.dtype)


class Tagger(_FineTuned):
    """A tag for each word, as the task "tag": X are lists of words, y lists of tags.

    Arguments and `run_` are those of `TextClassifier`.
    """

    task = "tag"

    def _rows(self, X: Any, y: Any) -> list[tuple[Any, ...]]:
        check_consistent_length(X, y)
        return [(list(words), list(tags)) for words, tags in zip(X, y, strict=True)]

    def predict(self, X: Sequence[Sequence[str]]) -> list[list[str]]:
        """Return the tags of each list of words."""
        check_is_fitted(self, "run_")
        return [p["tags"] for p in self.run_.predict({"words": list(map(list, X))})]

    def score(self, X: Sequence[Sequence[str]], y: Sequence[Sequence[str]]) -> float:
        """Return the task's main measure: F1 of entities, else the accuracy of tags."""
        check_is_fitted(self, "run_")
        return self.run_.evaluate(self._rows(X, y))[self.run_.results["metric"]]


class Embedder(TransformerMixin, BaseEstimator):
    """One vector for each text; arguments are those of `Pretrained.embed`. It learns nothing.

    Args:
        model: A path or a name that `tfnlp.load` takes.
    """

    def __init__(
        self,
        model: str | os.PathLike[str],
        pooling: str | None = None,
        normalize: bool | None = None,
        layer: int = -1,
        max_length: int | None = None,
        prompt: str | None = None,
    ) -> None:
        _check_model(model)
        self.model, self.pooling, self.normalize = model, pooling, normalize
        self.layer, self.max_length, self.prompt = layer, max_length, prompt

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Load the model."""
        self.loaded_ = load(self.model)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the vectors of N texts, float32 `[N, D]`."""
        check_is_fitted(self, "loaded_")
        settings = self.get_params()
        del settings["model"]
        return self.loaded_.embed([text for (text,) in _columns(X)], **settings)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state["_fitted"] = state.pop("loaded_", None) is not None
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        fitted = state.pop("_fitted")
        super().__setstate__(state)
        if fitted:
            self.fit()


def _columns(X: Any) -> list[tuple[str, ...]]:
    """Return the texts of each row."""
    rows = [row.values() if isinstance(row, dict) else row for _, row in rows_of(X, "X")]
    return [(row,) if isinstance(row, str) else tuple(row) for row in rows]
