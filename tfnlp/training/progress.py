"""A progress bar on a terminal, a line now and then in a log file."""

import sys

from tqdm import tqdm

# What fits beside the bar, under shorter names.
_SHOWN = {
    "loss": "loss",
    "perplexity": "perplexity",
    "masked_lm_accuracy": "mlm acc",
    "next_sentence_accuracy": "nsp acc",
}


class Progress:
    """Shows steps, speed, time left and the loss on stderr.

    Args:
        first, total: first step and number of steps.
        enabled: False shows nothing.
    """

    def __init__(self, first, total, enabled=True):
        terminal = sys.stderr.isatty()
        self.bar = tqdm(
            initial=first,
            total=total,
            unit="step",
            disable=not enabled,
            dynamic_ncols=terminal,
            ncols=None if terminal else 110,
            mininterval=0.5 if terminal else 10.0,
            file=sys.stderr,
        )

    def update(self, step, logs):
        """Moves the bar to `step`."""
        self.bar.set_postfix(_short(logs), refresh=False)
        self.bar.update(step - self.bar.n)

    def note(self, step, logs):
        """Prints a line with held-out values above the bar."""
        if not self.bar.disable:
            values = "  ".join(f"{name} {value:.4f}" for name, value in logs.items())
            self.bar.clear()
            tqdm.write(f"step {step} held out: {values}", file=sys.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.bar.close()


def _short(logs):
    return {short: f"{logs[name]:.3f}" for name, short in _SHOWN.items() if name in logs}
