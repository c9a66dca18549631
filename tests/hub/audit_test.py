"""What an audit finds in graphs that do something else than computing, and in ours."""

import json
import re

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

from tfnlp import hub
from tfnlp.hub.inspection.audit import EFFECTS
from tfnlp.serving.module import load_served

# Arguments whose names look like those of files, of operations that touch none.
_HARMLESS = re.compile(
    r"^_|BoostedTrees|Quantile|Table|Collective|Regex|StatsAggregator|Tokenize|CTC|TPU|InTopK|Reader"
    r"|TensorSliceDataset|ApproxTopK|RiscSort|Cudnn"
)
_NAMES = re.compile(r"file|path$|_dir|directory|address|url|uri|^prefix|logdir|pattern")


def registered():
    """All operations of TensorFlow, and which of their arguments are named like files."""
    buffer = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    for one in op_def_pb2.OpList.FromString(buffer).op:
        arguments = [*(x.name for x in one.input_arg), *(x.name for x in one.attr)]
        yield one.name, [name for name in arguments if _NAMES.search(name)]


def test_every_operation_with_an_argument_of_a_file_or_an_address_is_known():
    known = {*EFFECTS, "StaticRegexFullMatch"}
    missing = {name for name, files in registered() if files and not _HARMLESS.search(name)}
    assert not missing - known
    assert len(missing) > 50


def written(folder, function, **attributes):
    module = tf.Module()
    for name, value in attributes.items():
        setattr(module, name, value)
    module.call = tf.function(function, input_signature=[tf.TensorSpec([], tf.string)])
    tf.saved_model.save(module, str(folder))
    return folder


def beside(x):
    return tf.cond(tf.equal(x, ""), lambda: x, lambda: tf.io.read_file("/etc/hostname") + x)


def lines_of(x):
    return tf.data.TextLineDataset([x]).reduce(tf.constant(""), lambda a, b: a + b)


def kept(x):
    tf.io.write_file("kept.txt", x)
    return x


def printed(x):
    tf.print(x, output_stream="file:///tmp/printed.txt")
    return x


def run_in_python(x):
    return tf.py_function(lambda y: y, [x], tf.string)


@pytest.mark.parametrize(
    "function, effect, operation, path",
    [
        (tf.io.read_file, "reads files", "ReadFile", None),
        (beside, "reads files", "ReadFile", "/etc/hostname"),
        (lines_of, "reads files", "TextLineDataset", None),
        (kept, "writes files", "WriteFile", None),
        (printed, "writes files", "PrintV2", "file:///tmp/printed.txt"),
        (run_in_python, "runs other code", "EagerPyFunc", None),
    ],
)
def test_what_a_graph_does_besides_computing_is_found(function, effect, operation, path, tmp_path):
    folder = written(tmp_path / "module", function)
    found = hub.audit(folder)
    assert {(one.effect, one.operation) for one in found.dangers} == {(effect, operation)}
    assert path is None or path in found.dangers[0].paths
    assert f"{effect} " in str(found) and operation in str(found)
    assert operation in json.dumps(found.to_dict())
    with pytest.raises(ValueError, match=f"{operation}.*`trusted`"):
        load_served(folder)


def test_a_table_of_a_file_outside_is_told_from_one_of_an_asset(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n", encoding="utf-8")

    index = tf.lookup.TextFileIndex
    initializer = tf.lookup.TextFileInitializer(
        str(words), tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER
    )
    table = tf.lookup.StaticHashTable(initializer, -1)
    own = written(tmp_path / "own", lambda x: table.lookup(x), table=table)
    assert hub.audit(own).dangers == ()

    def outside(x):
        other = tf.raw_ops.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="t")
        tf.raw_ops.InitializeTableFromTextFileV2(
            table_handle=other, filename="/etc/passwd", key_index=index.WHOLE_LINE,
            value_index=index.LINE_NUMBER,
        )  # fmt: skip
        return x

    found = hub.audit(written(tmp_path / "outside", outside)).dangers
    assert {one.operation for one in found} == {"InitializeTableFromTextFileV2"}
    assert "/etc/passwd" in found[0].paths


def test_a_saver_that_a_signature_calls_is_found(tmp_path):
    value = tf.Variable(np.float32(1))

    def saved(x):
        tf.raw_ops.SaveV2(
            prefix=x, tensor_names=["v"], shape_and_slices=[""], tensors=[value.read_value()]
        )
        return x

    folder = written(tmp_path / "module", saved, value=value)
    assert [one.operation for one in hub.audit(folder).dangers] == ["SaveV2"]
