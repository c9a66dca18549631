"""The engine of a run, which is Keras's backend: chosen before Keras is imported."""

import importlib.metadata
import importlib.util
import os
import subprocess
import sys

from tfnlp.accelerators import accelerator, has_tpu, needs_pjrt, unused

_BACKEND = "KERAS_BACKEND"
_SEES_GPU = {
    "tensorflow": "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))",
    "jax": "import jax; print(sum(d.platform == 'gpu' for d in jax.devices()))",
}


def use_engine(engine: str, strategy: str = "auto", tpu: str | None = None) -> str:
    """Choose the engine that trains, and make it Keras's backend.

    "auto" is the backend that Keras was imported with; else that of `KERAS_BACKEND`; else the one
    that can use this machine's TPU or GPU; else TensorFlow.

    Args:
        engine: "tensorflow", "jax" or "auto".
        strategy: See `tfnlp.training.make_strategy`. With "cpu" no TPU or GPU is looked for.
        tpu: The name of a remote TPU, which only TensorFlow reaches.

    Returns:
        "tensorflow" or "jax", or what else Keras was imported with.

    Raises:
        ValueError: if Keras was imported with another backend; if no installed package can use
            this machine's TPU or GPU.
        ImportError: for "jax", if JAX is not installed.
    """
    if "keras" in sys.modules:
        import keras

        name = keras.backend.backend()
        if engine not in ("auto", name):
            raise ValueError(
                f"`engine` {engine} was asked for, but Keras was imported with the backend {name}; "
                f"set {_BACKEND}={engine} before keras or tensorflow is imported"
            )
        return name
    name = _choice(strategy, tpu) if engine == "auto" else engine
    if name == "jax" and importlib.util.find_spec("jax") is None:
        raise ImportError("`engine` jax needs JAX; pip install jax, on a TPU 'jax[tpu]'")
    os.environ[_BACKEND] = name
    if name == "jax" and (strategy == "cpu" or accelerator() is None):
        # Else JAX looks for a TPU where its library is installed, and says at length that there
        # is none.
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if name == "tensorflow" and strategy != "cpu" and has_tpu() and needs_pjrt():
        _set_pjrt_variables()
    return name


def _choice(strategy: str, tpu: str | None) -> str:
    """Return the engine of "auto"."""
    named = os.environ.get(_BACKEND)
    if named in _SEES_GPU:
        return named
    remote = tpu or os.environ.get("TPU_NAME") or os.environ.get("COLAB_TPU_ADDR")
    kind = None if strategy == "cpu" or remote else accelerator()
    if kind is None or (kind == "tpu" and _is_installed("tensorflow-tpu")):
        return "tensorflow"
    if kind == "tpu":
        if all(importlib.util.find_spec(name) for name in ("jax", "libtpu")):
            return "jax"
    else:
        for name in _SEES_GPU:
            if importlib.util.find_spec(name) is not None and _sees_gpu(name):
                return name
    raise ValueError(unused(kind))


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _sees_gpu(name: str) -> bool:
    """Return whether a package can use the GPU; asked in a process of its own.

    To import TensorFlow is to import Keras, whose backend is then fixed.
    """
    found = subprocess.run(
        [sys.executable, "-c", _SEES_GPU[name]], capture_output=True, text=True, check=False
    )
    return found.returncode == 0 and found.stdout.split()[-1:] not in ([], ["0"])


def _set_pjrt_variables() -> None:
    """Set what TensorFlow must find in the environment to reach a v5e, v5p or v6e TPU."""
    found, path = importlib.util.find_spec("libtpu"), "/lib/libtpu.so"  # that of a VM's image
    if found is not None and found.origin is not None:
        path = os.path.join(os.path.dirname(found.origin), "libtpu.so")
    os.environ.setdefault("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", path)
    os.environ.setdefault("PJRT_DEVICE", "TPU")
    os.environ.setdefault("NEXT_PLUGGABLE_DEVICE_USE_C_API", "true")
    os.environ.setdefault("TPU_NAME", "local")
    passes = ("convert_control_to_data_outputs_pass", "merge_control_flow_pass")
    flags = ["--tf_mlir_enable_mlir_bridge=true"]
    flags += [f"--tf_mlir_enable_{name}=true" for name in passes]
    given = os.environ.get("TF_XLA_FLAGS", "")
    os.environ["TF_XLA_FLAGS"] = " ".join([given, *(f for f in flags if f not in given)]).strip()
