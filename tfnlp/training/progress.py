"""A progress bar on a terminal or in a notebook, and lines at intervals in a log file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from tqdm import tqdm

from tfnlp.bars import progress_bar

_HEAD = "{percentage:3.0f}% {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"
_COLUMNS = 80  # of a terminal that does not say how many it has
_LOG_COLUMNS = 110  # of a line in a file
_LEAST_BAR = 10  # columns; a narrower bar is not shown
_BESIDE = 50  # columns of figures beside a widget


def _count(x: float) -> str:
    """Return three digits: 950, 21.3k, 1.24M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= size:
            x, suffix = x / size, unit
            break
    else:
        suffix = ""
    digits = 2 if x < 10 and suffix else 1 if x < 100 and suffix else 0
    return f"{x:.{digits}f}{suffix}"


def _size(x: float) -> str:
    """Return three digits: 0.83, 12.5, 431, 1.2e4."""
    if 0 < abs(x) < 0.01 or abs(x) >= 1000:
        return _exponent(x)
    return f"{x:.{2 if abs(x) < 10 else 1 if abs(x) < 100 else 0}f}"


def _share(x: float) -> str:
    """Return a share as .503, 1.000."""
    return f"{x:.3f}".removeprefix("0")


def _exponent(x: float) -> str:
    """Return a number as 4.1e-4."""
    digits, _, exponent = f"{x:.1e}".partition("e")
    return f"{digits}e{int(exponent)}"


def _named(name: str, form: Callable[[float], str]) -> Callable[[float], str]:
    return lambda x: f"{name} {form(x)}"


# The figures of the line, in this order. The ones with the largest numbers are left out first if
# the line is too short: the loss, the speed and the task's measure stay.
_SHOWN = {
    "loss": (0, _named("loss", "{:.3f}".format)),
    "perplexity": (2, _named("ppl", _size)),
    "masked_lm_accuracy": (2, _named("mlm", _share)),
    "class_accuracy": (2, _named("acc", _share)),
    "label_accuracy": (2, _named("acc", _share)),
    "choice_accuracy": (2, _named("acc", _share)),
    "tag_accuracy": (2, _named("acc", _share)),
    "span_accuracy": (2, _named("acc", _share)),
    "score_pearson": (2, _named("r", lambda x: f"{x:.2f}")),
    "token_accuracy": (2, _named("acc", _share)),
    "ranking_accuracy": (2, _named("acc", _share)),
    "softmax_accuracy": (2, _named("acc", _share)),
    "discriminator_accuracy": (8, _named("found", _share)),
    "next_sentence_accuracy": (9, _named("nsp", _share)),
    "sentence_order_accuracy": (9, _named("sop", _share)),
    "tokens_per_second": (1, lambda x: f"{_count(x)} tok/s"),
    "steps_per_second": (8, lambda x: f"{_size(x)} step/s"),
    "share_of_peak": (3, lambda x: f"peak {x:.0%}"),
    "input_wait": (4, lambda x: f"wait {x:.0%}"),
    "learning_rate": (5, _named("lr", _exponent)),
    "gradient_norm": (6, _named("|g|", _size)),
    "memory_gb": (7, lambda x: f"{x:.1f} GB"),
}


def fitted(figures: Mapping[str, float], columns: int) -> str:
    """Return a string of the most important figures that fit into `columns`."""
    texts = {name: _SHOWN[name][1](x) for name, x in figures.items() if name in _SHOWN}
    kept, used = set(), 0
    for name in sorted(texts, key=lambda name: _SHOWN[name][0]):
        if used + len(texts[name]) <= columns:
            used += len(texts[name]) + 2
            kept.add(name)
    return ", ".join(texts[name] for name in _SHOWN if name in kept)


def wrapped(head: str, values: list[str], columns: int) -> str:
    """Return values side by side behind `head`, in lines of fewer than `columns` columns."""
    lines = [head]
    for value in values:
        if len(lines[-1]) + len(value) >= columns and lines[-1].strip():
            lines.append(" " * min(len(head), columns // 4))
        lines[-1] += f"{value}  "
    return "\n".join(line.rstrip() for line in lines)


class _Line(tqdm):
    """tqdm's clock and pace, with a line that is cut to the number of columns."""

    figures: Mapping[str, float] = {}

    def __str__(self) -> str:
        form = {**self.format_dict, "postfix": None, "prefix": ""}
        columns = form.pop("ncols") or _COLUMNS
        head = self.format_meter(**{**form, "bar_format": _HEAD})
        tail = fitted(self.figures, columns - len(head) - 1)
        tail = f" {tail}" if tail else ""
        if columns - len(head) - len(tail) <= _LEAST_BAR:
            return head + tail
        form["bar_format"] = _HEAD.replace("%", "%|{bar}|", 1)
        return self.format_meter(**form, ncols=columns - len(tail)) + tail


class Progress:
    """A display of steps, remaining time, loss and speed on stderr.

    Args:
        first, total: first step and number of steps.
        enabled: False shows nothing.
    """

    def __init__(self, first: int, total: int, enabled: bool = True) -> None:
        self.bar = progress_bar(
            kind=_Line,
            initial=first,
            total=total,
            unit="step",
            disable=not enabled,
            ncols=_LOG_COLUMNS,
        )

    def update(self, step: int, figures: Mapping[str, float]) -> None:
        """Move the bar to `step`; `figures` are floats by name, such as `loss`."""
        if isinstance(self.bar, _Line):
            self.bar.figures = figures
        else:  # a widget
            self.bar.set_postfix_str(fitted(figures, _BESIDE), refresh=False)
        self.bar.update(step - self.bar.n)

    def note(self, step: int, logs: Mapping[str, float]) -> None:
        """Print a line with held-out values above the bar."""
        if not self.bar.disable:
            values = [f"{name} {value:.4f}" for name, value in logs.items()]
            columns = self.bar.format_dict["ncols"] or _COLUMNS
            self.bar.clear()
            tqdm.write(wrapped(f"step {step} held out: ", values, columns), file=sys.stderr)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.bar.close()
