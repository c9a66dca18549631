"""Run without tfnlp: what TensorFlow alone does with the modules, as JSON on standard output."""

import importlib.util
import json
import pathlib
import sys

import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session


def registered():
    data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {op.name for op in op_def_pb2.OpList.FromString(data).op}


def gradient(path):
    module = tf.saved_model.load(str(path))
    try:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(module(tf.ones([1, 4])))
        return str(tape.gradient(loss, module.trainable_variables[0]).shape.as_list())
    except LookupError as error:
        return type(error).__name__


source, folder = sys.argv[1], pathlib.Path(sys.argv[2])
spec = importlib.util.spec_from_file_location("graph_operations", source)
operations = importlib.util.module_from_spec(spec)
spec.loader.exec_module(operations)

NAMES = [*operations.TENSORFLOW_TEXT, "TFText>RoundRobinTrim", "Addons>Gelu", "NoSuchOp"]
NAMES += ["MatMul", "XlaDot", "StatefulPartitionedCall"]
core = registered()
seen = {name: gradient(folder / name) for name in ("swish", "swish_with_gradient")}
seen["before"] = operations.foreign_ops(NAMES)
assert "tensorflow_text" not in sys.modules
space = {}
exec((folder / "usage.py").read_text(encoding="utf-8"), space)
seen["outputs"] = sorted(space["outputs"])
seen["after"] = operations.foreign_ops(NAMES)
seen["registered"] = sorted(registered() - core)
print(json.dumps(seen))
