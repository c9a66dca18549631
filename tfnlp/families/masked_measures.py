"""What is said and measured of masked text: before, during and after training."""

from typing import Any


def too_long(found: dict[str, Any], seq_length: int) -> str:
    """Return how many sentences are read in part, because they fill a sequence alone."""
    import numpy as np

    if "sentence_starts" not in found:  # prepared examples
        return ""
    cut = int((np.diff(found["sentence_starts"]) > seq_length - 3).sum())
    of = len(found["sentence_starts"]) - 1
    return (
        f", {cut:,} of {of:,} sentences longer than {seq_length - 3} tokens and cut" if cut else ""
    )


def measured(trainer: Any, held_out: list, went_on: bool) -> dict[str, float]:
    """Return the last held-out measures, or the best ones of a run that went on from a model."""
    history = trainer.history
    if not history.validation:
        return trainer.evaluate(held_out)
    if not went_on:
        return history.validation[-1]
    best = history.best_step("loss")  # what the run is loaded with
    return next(row for row in history.validation if row["step"] == best)


def line(when: str, results: dict[str, float], commonest: float) -> str:
    """Return the held-out accuracies of the heads that a model has, as text."""
    if "step" in results:
        when = f"after {int(results['step'])} steps"
    said = []
    if "masked_lm_accuracy" in results:
        said.append(
            f"masked-LM accuracy {results['masked_lm_accuracy']:.3f} (always guessing the "
            f"commonest token: {commonest:.3f})"
        )
    for name in ("next_sentence", "sentence_order"):
        accuracy = results.get(f"{name}_accuracy")
        if accuracy is not None:
            said.append(f"{name.replace('_', '-')} accuracy {accuracy:.3f} (chance: 0.500)")
    if "discriminator_accuracy" in results:
        said.append(
            f"discriminator's accuracy {results['discriminator_accuracy']:.3f} (always saying "
            f"original: {1 - results['replaced']:.3f})"
        )
    return f"held out {when}: {', '.join(said)}"


def unigram_accuracy(commonest: int, batches: list) -> float:
    """Return the accuracy of always guessing the training text's commonest token."""
    right = sum(
        float(((b["masked_lm_ids"].numpy() == commonest) * b["masked_lm_weights"].numpy()).sum())
        for b in batches
    )
    return right / max(1.0, sum(float(b["masked_lm_weights"].numpy().sum()) for b in batches))
