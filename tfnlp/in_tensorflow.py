"""Calls of a model that need Keras on TensorFlow, from a process in which it runs on JAX.

A backend of Keras is fixed for a process, and modules and their signatures are TensorFlow graphs.
So the call is made in a process of its own, which loads the same model, takes the weights of this
one and sends back what the call returns:

    FOLDER/request.pickle   the model's path, the method, its arguments
    FOLDER/weights.npz      the weights, in the order of the model's variables
    FOLDER/model.keras      a plain Keras model, in place of both
    FOLDER/outcome.pickle   what was returned, or the error
"""

import builtins
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

_SEED = "seed_generator_state"


def is_elsewhere() -> bool:
    """Return whether Keras runs on another backend than TensorFlow in this process."""
    import keras

    return keras.backend.backend() != "tensorflow"


def in_tensorflow(
    path: str | None, models: Sequence[Any], method: str, *arguments: Any, **settings: Any
) -> Any:
    """Return what a method of the model that `tfnlp.load(path)` returns gives in TensorFlow.

    The call is made with the weights of `models`, see `models_of`. Pickle must take the arguments,
    and tensors come back as arrays.
    """
    if path is None:
        raise ValueError(
            f"{method} needs Keras on TensorFlow, and this model is in no folder that a process "
            "with KERAS_BACKEND=tensorflow could load it from; save it first"
        )
    request = {"path": path, "method": method, "arguments": arguments, "settings": settings}
    with tempfile.TemporaryDirectory() as folder:
        np.savez(os.path.join(folder, "weights.npz"), *[np.asarray(v) for v in _weights(models)])
        return _call(folder, request)


def export_in_tensorflow(model: Any, directory: str, **settings: Any) -> Any:
    """Return what `tfnlp.export` of a plain Keras model gives in TensorFlow."""
    request = {"path": None, "method": "export", "arguments": (directory,), "settings": settings}
    with tempfile.TemporaryDirectory() as folder:
        model.save(os.path.join(folder, "model.keras"))
        return _call(folder, request)


def models_of(loaded: Any) -> list[Any]:
    """Return the Keras models of a `Pretrained` or `TaskRun`, in a fixed order; of others none."""
    if hasattr(loaded, "task_model"):
        features = loaded.task_model.features
        found = [loaded.task_model.model, None if features is None else features.encoder]
    else:
        found = [getattr(loaded, name, None) for name in ("encoder", "pretrainer")]
        found += getattr(loaded, "sentence_layers", ())
    return [model for model in found if hasattr(model, "trainable_variables")]


def _weights(models: Sequence[Any]) -> list[Any]:
    return [v for model in models for v in model.variables if v.name != _SEED]


def _call(folder: str, request: dict[str, Any]) -> Any:
    try:
        with open(os.path.join(folder, "request.pickle"), "wb") as file:
            pickle.dump(request, file)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{request['method']} needs Keras on TensorFlow and is called in a process of its own, "
            f"to which an argument can't be sent ({error}); give paths or lists"
        ) from error
    environment = {
        **os.environ,
        "KERAS_BACKEND": "tensorflow",
        "CUDA_VISIBLE_DEVICES": "-1",  # JAX has the memory of the GPU
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tfnlp.in_tensorflow", folder], env=environment, check=False
    )
    outcome = os.path.join(folder, "outcome.pickle")
    if not os.path.exists(outcome):
        raise RuntimeError(
            f"the process for {request['method']} in TensorFlow ended with {ended.returncode}"
        )
    with open(outcome, "rb") as file:
        kind, value = pickle.load(file)
    if kind == "returned":
        return value
    raise getattr(builtins, kind, RuntimeError)(value)


def _answer(folder: str) -> tuple[str, Any]:
    """Return ("returned", value), or the name of an error's class and what it says."""
    import keras

    import tfnlp

    with open(os.path.join(folder, "request.pickle"), "rb") as file:
        request = pickle.load(file)
    call, arguments = request["method"], request["arguments"]
    try:
        if request["path"] is None:
            model = keras.models.load_model(os.path.join(folder, "model.keras"))
            return "returned", tfnlp.export(model, *arguments, **request["settings"])
        loaded = tfnlp.load(request["path"])
        _assign(_weights(models_of(loaded)), os.path.join(folder, "weights.npz"))
        return "returned", _sent(getattr(loaded, call)(*arguments, **request["settings"]))
    except Exception as error:
        known = [c for c in type(error).__mro__ if getattr(builtins, c.__name__, None) is c]
        return known[0].__name__, str(error)


def _assign(variables: Sequence[Any], path: str) -> None:
    with np.load(path) as found:
        for number, variable in enumerate(variables):
            variable.assign(found[f"arr_{number}"])


def _sent(value: Any) -> Any:
    """Return a value in which tensors are arrays."""
    if isinstance(value, dict):
        return {name: _sent(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_sent(x) for x in value)
    return value.numpy() if hasattr(value, "numpy") else value


def main() -> None:
    """Answer the request in the folder that the command line names."""
    folder = sys.argv[1]
    outcome = _answer(folder)
    partial = os.path.join(folder, "outcome.partial")
    with open(partial, "wb") as file:
        pickle.dump(outcome, file)
    os.replace(partial, os.path.join(folder, "outcome.pickle"))


if __name__ == "__main__":
    main()
