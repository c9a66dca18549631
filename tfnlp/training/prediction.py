"""Outputs of a model for all examples, in the examples' order."""

from collections.abc import Callable, Iterable

import keras
import numpy as np

from tfnlp.data.labelled.batches import TaskBatches
from tfnlp.models.first_position import for_prediction
from tfnlp.training.forward import forward, is_compiled

# Outputs of the models of tasks, and whether they have a time axis.
Outputs = dict[str, np.ndarray | list[np.ndarray]]
_OUTPUTS = {
    "class_logits": False,
    "label_logits": False,
    "choice_logits": False,
    "score": False,
    "tag_logits": True,
    "start_logits": True,
    "end_logits": True,
}


def predict(
    model: keras.Model, batches: TaskBatches, names: Iterable[str] | None = None
) -> Outputs:
    """Return outputs of `model` without dropout, for all examples.

    Args:
        model: a Keras model whose inputs and outputs are dicts.
        batches: their batches must hold the model's inputs; nothing else in them is used.
        names: outputs that are wanted; None: those of `class_logits`, `label_logits`,
            `choice_logits`, `score`, `tag_logits`, `start_logits` and `end_logits` that the model
            has.

    Returns:
        dict of output name to values in the order of the N examples: an array [N, ...]; or, of
        outputs with a time axis ([B, T] and [B, T, K], and others whose model leaves T open), a
        list of N arrays [T, ...], where T is the length that the example was padded to.
    """
    return predictor(model, names)(batches)


def predictor(
    model: keras.Model, names: Iterable[str] | None = None
) -> Callable[[TaskBatches], Outputs]:
    """Return a function of batches that returns `predict(model, batches, names)`.

    Examples are sorted by length and computed in batches of as many tokens as `batch_size` of the
    longest ones have. TensorFlow traces the model once for all calls, JAX once for each shape. It
    uses the weights at the time of each call.
    """
    if names is None:
        names = [name for name in _OUTPUTS if name in model.output]
    names = list(names)
    timed = {name: _OUTPUTS.get(name, None in model.output[name].shape[1:]) for name in names}
    outputs = forward(for_prediction(model), names)

    def run(batches: TaskBatches) -> Outputs:
        found, weights = {name: {} for name in names}, outputs.weights()
        for batch, examples in batches.by_tokens(full=is_compiled()):
            for name, values in outputs(batch, weights).items():
                found[name].update(zip(examples.tolist(), values, strict=False))
        rows = {name: [x[n] for n in range(len(x))] for name, x in found.items()}
        return {name: x if timed[name] else np.stack(x) for name, x in rows.items()}

    return run
