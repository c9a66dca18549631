"""Linear probes: what a linear classifier finds in each layer of a frozen model."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tfnlp.runs.finetune_examples import read_rows
from tfnlp.settings.show import ProbeSettings
from tfnlp.show.layers import check_contexts, layer_names, word_layers
from tfnlp.show.picture import Picture, finished, loaded_model, name_of, plotly
from tfnlp.tasks import TASKS
from tfnlp.tasks.tag import WordTask

_HELD_OUT = 5  # each fifth example
_PENALTIES = (1.0, 10.0, 100.0, 1000.0)


def probe(
    model: Any,
    task: str,
    rows: Any,
    limit: int = 1000,
    text_columns: list[str] | None = None,
    label: str | None = None,
) -> Picture:
    """Show what a linear classifier finds in each layer of a frozen model.

    Least squares with a penalty (scikit-learn's `RidgeClassifierCV`) on standardized vectors, which
    is learnt in seconds. Those of texts are the means of their tokens'. Each fifth example is held
    out.

    Args:
        model: A BERT or an encoder after it, a GPT or an ELMo; or a path or name.
        task: "tag", a tag of each word, or "classify", a class of each text.
        rows: Labelled examples, as `tfnlp.finetune` takes them.
        limit: How many of them are read.
        text_columns, label: Where texts and labels stand, as in `tfnlp.finetune`.

    Returns:
        a `Picture` whose `values` are a dict of each layer, and of the simplest guesses, to the
        share of held-out words or texts that are right.

    Raises:
        ValueError: for rows that can't be read, or a model of another kind.
    """
    settings = ProbeSettings.make(
        model=model, task=task, rows=rows, limit=limit, text_columns=text_columns, label=label
    )
    model, kind = loaded_model(model), TASKS[task]
    check_contexts(model)
    examples = read_rows(kind.form, rows, settings, "rows").examples[: settings.limit]
    held_out = np.arange(len(examples)) % _HELD_OUT == _HELD_OUT - 1
    golds = kind.golds(examples)
    if issubclass(kind, WordTask):
        layers = word_layers(model, examples)
        words = [word for example in examples for word in example.words]
        held_out = np.repeat(held_out, [len(example.words) for example in examples])
        golds = [tag for tags in golds for tag in tags]
        unit = "words"
    else:
        texts = [" ".join(kind.texts_of(example)) for example in examples]
        layers = {
            name: model.embed(texts, pooling="mean", normalize=False, layer=n)
            for n, name in enumerate(layer_names(model))
        }
        words, unit = None, "texts"
    golds = np.array([str(gold) for gold in golds])
    if len(set(golds[~held_out])) < 2 or not held_out.any():
        raise ValueError("`rows` must be ten examples or more, of two labels or more")
    accuracy = {name: accuracy_of(vectors, golds, held_out) for name, vectors in layers.items()}
    guesses = _guesses(golds, held_out, words)
    lines = [f"{name:28s}{value:.4f}" for name, value in {**accuracy, **guesses}.items()]
    lines.append(
        f"{int(held_out.sum()):,} held-out {unit}, {len(golds) - int(held_out.sum()):,} learnt"
    )
    return Picture(
        figure=_curve(accuracy, guesses, name_of(model), unit),
        values={**accuracy, **guesses},
        text="\n".join(lines),
    )


def accuracy_of(vectors: np.ndarray, golds: np.ndarray, held_out: np.ndarray) -> float:
    """Return the share of held-out labels that a linear classifier of vectors `[W, D]` predicts."""
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(_PENALTIES))
    model.fit(vectors[~held_out], golds[~held_out])
    return float(model.score(vectors[held_out], golds[held_out]))


def _guesses(golds: np.ndarray, held_out: np.ndarray, words: list[str] | None) -> dict[str, float]:
    """Return how often the commonest label is right, and of words each word's commonest tag."""
    (common, _), *_ = collections.Counter(golds[~held_out]).most_common(1)
    found = {"the commonest label": float(np.mean(golds[held_out] == common))}
    if words is not None:
        counts: dict[str, collections.Counter] = collections.defaultdict(collections.Counter)
        for word, gold, held in zip(words, golds, held_out, strict=True):
            if not held:
                counts[word][gold] += 1
        guesses = [
            counts[word].most_common(1)[0][0] if word in counts else common
            for word, held in zip(words, held_out, strict=True)
            if held
        ]
        found["the word's commonest label"] = float(np.mean(golds[held_out] == np.array(guesses)))
    return found


def _curve(accuracy: dict[str, float], guesses: dict[str, float], name: str, unit: str) -> Any:
    """Return a figure of the layers' accuracies, and of the best guess as a line."""
    go, best = plotly(), max(guesses, key=guesses.__getitem__)
    line = go.Scatter(
        x=list(accuracy), y=list(accuracy.values()), mode="lines+markers+text",
        texttemplate="%{y:.3f}", textposition="top center",
    )  # fmt: skip
    figure = go.Figure(line)
    figure.add_hline(
        y=guesses[best], line_dash="dash", line_color="gray",
        annotation_text=f"{best} {guesses[best]:.3f}", annotation_position="bottom left",
    )  # fmt: skip
    shown = [*accuracy.values(), guesses[best]]
    least, most = min(shown), max(shown)
    margin = max(0.15 * (most - least), 0.01)
    figure.update_yaxes(title=f"held-out {unit} right", range=[least - margin, most + margin])
    return finished(figure, f"Linear probes of {name}", 220 + 90 * len(accuracy), 420)
