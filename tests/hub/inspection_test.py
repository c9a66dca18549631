"""What is read from a SavedModel's files, against the models and against TensorFlow's loader."""

import ast
import json
import math
import shutil

import numpy as np
import pytest
import tensorflow as tf

from tests.hub import inspection_modules
from tests.hub.inspection_modules import message
from tests.support import run_python
from tfnlp import hub
from tfnlp.hub.inspection.saved_graph import TENSORFLOW_TEXT, foreign_ops

# Exports trace many graphs.
pytestmark = [pytest.mark.timeout(900), pytest.mark.slow]

KINDS = {
    "bert/encoder": "reusable",
    "bert/preprocessor": "reusable",
    "elmo": "reusable",
    "gpt": "reusable",
    "list": "callable",
    "swish": "reusable",
    "swish_with_gradient": "reusable",
    "odd": "functions",
    "signature": "signatures",
    "keras3": "keras3",
    "keras2": "keras2",
    "tf1": "tf1",
}
OBSTACLES = {
    "bert/preprocessor": "it has no variables",
    "list": "it lists no trainable_variables",
    "swish": "its custom gradients were not saved",
    "odd": "it is not callable itself",
    "signature": "its __call__ was not traced",
    "keras3": "it is not callable itself",
    "tf1": "it is of TensorFlow 1",
}


@pytest.fixture(scope="module")
def written(made, tmp_path_factory):
    """The folder, what its modules were written from, and what is read of them, by name."""
    folder = tmp_path_factory.mktemp("modules")
    models = inspection_modules.write_all(folder, made)
    return folder, models, {name: hub.inspect(folder / name) for name in KINDS}


@pytest.fixture(scope="module")
def used(written):
    """What the three statements leave behind, by name, run on first use."""
    spaces = {}

    def use(name):
        if name not in spaces:
            spaces[name] = run(written[2][name].usage)
        return spaces[name]

    return use


def run(code):
    space = {}
    exec(code, space)
    return space


def plain(nest):
    """A nest of specs or tensors as one of (kind, shape, dtype), lists and tuples as they are."""
    if isinstance(nest, dict):
        return {key: plain(nest[key]) for key in sorted(nest)}
    if isinstance(nest, list | tuple):
        return (isinstance(nest, tuple), [plain(x) for x in nest])
    if isinstance(nest, tf.RaggedTensorSpec):
        return "ragged", nest.shape.as_list(), nest.dtype, nest.ragged_rank, nest.row_splits_dtype
    if isinstance(nest, tf.SparseTensorSpec):
        return "sparse", nest.shape.as_list(), nest.dtype
    if hasattr(nest, "dtype"):
        return "dense", nest.shape.as_list() if nest.shape.rank is not None else None, nest.dtype
    return nest


@pytest.mark.parametrize("name", KINDS)
def test_modules_touch_no_files_but_their_own(written, name):
    found = hub.audit(written[0] / name)
    assert found.dangers == () and found.operations > 5, found


@pytest.mark.parametrize("name", KINDS)
def test_calls_are_those_that_tensorflow_loads(written, used, name):
    found, module = written[2][name], used(name)["module"]
    assert found.interface == KINDS[name]
    assert (found.obstacle or "").startswith(OBSTACLES.get(name, ""))
    assert (found.obstacle is not None) == (name in OBSTACLES)
    for function in found.functions:
        there = module
        for part in function.name.split(".") if function.name else ():
            there = getattr(there, part)
        there = there if hasattr(there, "concrete_functions") else there.__call__
        assert len(function.calls) == len(there.concrete_functions) > 0
        for call, graph in zip(function.calls, there.concrete_functions, strict=True):
            assert plain((call.args, call.kwargs)) == plain(graph.structured_input_signature)
            assert plain(call.outputs) == plain(graph.structured_outputs)
    assert sorted(s.name for s in found.signatures) == sorted(module.signatures)
    for signature in found.signatures:
        call, graph = signature.calls[0], module.signatures[signature.name]
        assert plain(call.arguments) == plain(graph.structured_input_signature[1])
        if name != "tf1":  # where TensorFlow says nothing of their shapes
            assert plain(call.outputs) == plain(graph.structured_outputs)


@pytest.mark.parametrize("name", ["bert/encoder", "gpt", "keras2", "keras3"])
def test_variables_are_the_models(written, name):
    model, found = written[1][name], written[2][name]
    wanted = {
        v.path if hasattr(v, "path") else v.name.split(":")[0]: tuple(v.shape)
        for v in model.trainable_variables
    }
    assert {v.name: tuple(v.shape) for v in found.variables if v.trainable} == wanted
    assert found.trainable_parameters == sum(math.prod(shape) for shape in wanted.values())
    assert all("seed" in v.name for v in found.variables if not v.trainable)


def test_variables_that_are_not_all_trained_or_listed(written):
    found = written[2]
    trained = [v.name.split("/")[0] for v in found["elmo"].variables if v.trainable]
    assert trained == ["scalar_mix", "scalar_mix"] and found["elmo"].trainable_parameters == 3
    encoder = found["bert/encoder"]  # whose `mlm` has variables of its own
    assert encoder.stored_variables > len(encoder.variables)
    assert (encoder.regularization_losses, found["keras2"].regularization_losses) == (0, 1)
    for name, table, count in (("list", ("w", 4, 3), "count"), ("tf1", ("table", 4, 3), "step")):
        assert {(v.name, *v.shape, v.dtype, v.trainable) for v in found[name].variables} == {
            (*table, tf.float32, True),
            (count, tf.int32, False),
        }
    assert (found["tf1"].parameters, found["tf1"].trainable_parameters) == (13, 12)


# --- Using it


@pytest.mark.parametrize("name", KINDS)
def test_the_three_statements_give_outputs(written, used, name):
    found, outputs = written[2][name], used(name)["outputs"]
    assert len(ast.parse(found.usage).body) == 3
    by_target = {f"module.{f.name}".rstrip("."): f for f in found.functions}
    target = found.usage.split("outputs = ")[1].split("(")[0]
    calls = by_target[target].calls if target in by_target else found.signatures[0].calls
    assert any(
        plain(tf.nest.map_structure(lambda x: None, outputs))
        == plain(tf.nest.map_structure(lambda x: None, call.outputs))
        for call in calls
    )
    flat = tf.nest.flatten(calls[0].outputs)
    for spec, x in zip(flat, tf.nest.flatten(outputs), strict=True):
        assert x.dtype == spec.dtype and spec.shape.is_compatible_with(x.shape)


@pytest.mark.parametrize("name", [name for name in KINDS if name not in OBSTACLES])
def test_what_can_be_tuned_has_gradients(written, used, name):
    found, module = written[2][name], used(name)["module"]
    call = ast.unparse(ast.parse(found.usage).body[2])
    with tf.GradientTape() as tape:
        space = dict(used(name))
        exec(call.replace("training=False", "training=True"), space)
        floats = [x for x in tf.nest.flatten(space["outputs"]) if x.dtype.is_floating]
        loss = tf.add_n([tf.reduce_sum(x * x) for x in floats])
    gradients = tape.gradient(loss, module.trainable_variables)
    assert sum(g is not None for g in gradients) == len(gradients) > 0


@pytest.mark.long
def test_where_nothing_but_tensorflow_is(written):
    """A gradient that was not saved is not there, and the operations of tensorflow_text are those
    that importing it registers."""
    # In an interpreter of its own, where nobody has imported tensorflow_text before.
    done = run_python(REGISTERED, folder=written[0], env={}, without_tfnlp=True)
    seen = json.loads(done.stdout)
    unprefixed = {name for name in seen["registered"] if not name.startswith("TFText>")}
    assert unprefixed == TENSORFLOW_TEXT
    assert seen["swish"] == "LookupError" and seen["swish_with_gradient"] == "[4, 3]"
    assert foreign_ops(["MatMul", "Addons>Gelu", "NoSuchOp", "TFText>RoundRobinTrim"]) == {
        "tensorflow_text": ("TFText>RoundRobinTrim",),
        "": ("Addons>Gelu", "NoSuchOp"),
    }
    needs = {name for name, found in written[2].items() if found.foreign_ops}
    assert needs == {"bert/preprocessor"}


REGISTERED = """
import json
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.python.client import pywrap_tf_session

def registered():
    data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {op.name for op in op_def_pb2.OpList.FromString(data).op}

def gradient(path):
    module = tf.saved_model.load(path)
    try:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(module(tf.ones([1, 4])))
        return str(tape.gradient(loss, module.trainable_variables[0]).shape.as_list())
    except LookupError as error:
        return type(error).__name__

core = registered()
seen = {name: gradient(name) for name in ("swish", "swish_with_gradient")}
import tensorflow_text
print(json.dumps({**seen, "registered": sorted(registered() - core)}))
"""


# --- As text and as JSON


def test_tables(written):
    lines = str(written[2]["bert/encoder"]).split("\n")
    count = sum(int(np.prod(v.shape)) for v in written[1]["bert/encoder"].trainable_variables)
    assert f"{count:,} of {count:,} parameters" in lines[2]
    assert "; 1 regularization loss" in str(written[2]["keras2"])
    start = lines.index("module(inputs, training=False | True)")
    assert lines[start + 1 : start + 8] == [
        "  inputs              dict",
        "    input_mask        int32 [?, ?]",
        "    input_type_ids    int32 [?, ?]",
        "    input_word_ids    int32 [?, ?]",
        "  returns             dict",
        "    default           float32 [?, 16]",
        "    embedding_output  float32 [?, ?, 16]",
    ]
    text = str(written[2]["bert/preprocessor"])
    assert text.count("module.bert_pack_inputs(") == 2  # with a length and without
    assert "or                list of 1 to 4: int32 [?, (?), (?)] ragged\n" in text
    assert "  inputs           string [?]\n  or               dict\n" in str(written[2]["elmo"])
    assert "module.encode(first, *0, extra, flag=True, scale=2)" in str(written[2]["odd"])


def test_json(written):
    for name in ("list", "odd", "tf1"):
        found = written[2][name]
        got = json.loads(json.dumps(found.to_dict()))
        assert got["fine_tunable"] == (found.obstacle is None)
        assert got["parameters"] == sum(int(np.prod(v["shape"])) for v in got["variables"])
        if name == "list":
            first = got["functions"][0]["calls"][0]
            spec = {"dtype": "float32", "kind": "dense", "shape": [None, 4]}
            assert first["arguments"] == {"inputs": [spec, spec], "training": False}
            assert first["outputs"][1]["half"] == {**spec, "shape": [None, 3]}
        if name == "odd":
            encode = next(f for f in got["functions"] if f["name"] == "encode")["calls"][0]
            assert encode["arguments"]["first"]["ragged_rank"] == 2


def test_names_are_not_obeyed(tmp_path):
    """Names of a stranger's file neither reach the terminal as they are nor become code."""
    module = tf.Module()
    name = '"]); evil = 1 #\x1b[31m\u202e'
    module.w = tf.Variable([1.0], name="w")
    score = tf.function(lambda **x: {name: next(iter(x.values())) * module.w})
    setattr(module, name, tf.Module())
    signatures = {name: score.get_concrete_function(**{"x": tf.TensorSpec([1], name="x")})}
    tf.saved_model.save(module, tmp_path / "evil", signatures=signatures)
    found = hub.inspect(tmp_path / "evil")
    assert str(found).replace("\n", "").isprintable()
    space = run(found.usage)
    assert "evil" not in space and name in space["outputs"]


# --- What is wrong with it


def test_files_that_do_not_go_together(written, tmp_path):
    shutil.copytree(written[0] / "list", tmp_path / "list")
    shutil.rmtree(tmp_path / "list" / "variables")
    shutil.copytree(written[0] / "swish" / "variables", tmp_path / "list" / "variables")
    assert "does not belong to" in message(tmp_path / "list")
    assert "the variable 'count' is not in it" in message(tmp_path / "list")
