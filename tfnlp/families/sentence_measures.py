"""Measures of a model's sentence vectors on pairs of texts, for models of every family."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tfnlp.families.sentence_runs import vectors_of_texts

if TYPE_CHECKING:
    from tfnlp.checkpoints.pretrained import Pretrained
    from tfnlp.families.family import Measured
    from tfnlp.settings.use import EvaluateSettings

TAKES = ("pairs", "text_columns", "label", "skip_bad_rows", "layout")


def measured_on_pairs(loaded: Pretrained, config: EvaluateSettings) -> Measured:
    """Return the measures of `tfnlp.tasks.embed.score_sentences`."""
    from tfnlp.data import examples_of
    from tfnlp.families.family import Measured
    from tfnlp.tasks.embed import score_sentences

    for name in sorted(config.given - {*TAKES}):
        raise ValueError(f"`{name}` can't be given with `pairs`; leave one of them out")
    data = examples_of(
        config.pairs,
        "embed",
        text=config.text_columns,
        label=config.label,
        skip=config.skip_bad_rows,
        name="pairs",
    )
    if data.skipped:
        warnings.warn(
            f"{len(data.skipped):,} rows left out, the first of them: {data.skipped[0]}",
            stacklevel=2,
        )
    texts = [text for example in data.examples for text in example.segments[:2]]
    results: dict[str, Any] = score_sentences(data.examples, vectors_of_texts(loaded, texts))
    lines = [f"{name:28s}{value:.4f}" for name, value in results.items()]
    return Measured({**results, "pairs": len(data.examples)}, "\n".join(lines))
