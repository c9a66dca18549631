"""Toy steps of both engines through the TPU's compiler, against figures computed from shapes."""

import dataclasses
import gzip
import importlib.util
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tfnlp.plan import compiler
from tfnlp.plan.chips import CHIPS, GIB, parse_topology
from tfnlp.plan.compiler import compile_for
from tfnlp.plan.lowering import lower_jax, lower_tensorflow
from tfnlp.plan.presets import Preset

pytestmark = pytest.mark.timeout(1200)
needs_compiler = pytest.mark.skipif(
    not all(importlib.util.find_spec(p) for p in ("jax", "libtpu")),
    reason="needs the TPU's compiler: pip install -e '.[tpu-plan]'",
)
V5E = CHIPS["v5e"]
ONE, EIGHT = parse_topology("v5e:1x1"), parse_topology("v5e:2x4")
ROWS, LENGTH, HIDDEN = 8, 16, 128
TRANSFORMER = dict(
    vocab_size=256, num_layers=1, hidden_size=HIDDEN, num_heads=2, intermediate_size=256
)
ELMO = dict(num_layers=1, units=128, projection_size=128, num_highway=1, filters=((1, 64), (2, 64)))


def toy(name, **more):
    """The preset of a model with the sizes of a toy."""
    elmo = name.startswith("elmo")
    sizes = dict(sizes=ELMO if elmo else TRANSFORMER, length=4 if elmo else LENGTH)
    return Preset(name=name, vocab_size=256, **{"rows": ROWS, **sizes, **more})


CASES = {
    "bert": toy("bert-tiny", predictions=4),
    "gpt": toy("gpt-mini", dropout=0.0),
    "elmo": toy("elmo-mini", samples=64, dropout=0.0),
}
SLOTS = {"bert": 2, "gpt": 2, "elmo": 1}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Function that returns TensorFlow's step and its compiled program, compiled once."""
    cache, made = tmp_path_factory.mktemp("plans"), {}

    def plan(name):
        if name not in made:
            step = lower_tensorflow(CASES[name])
            made[name] = step, compile_for(V5E, step.text, cache=cache, time_limit=1000)
        return made[name]

    return plan


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", ["bert", "gpt", "elmo"])
def test_memory(name, planned):
    step, compiled = planned(name)
    assert compiled.fits
    # The arguments: weights, slots, the batch, counted from their shapes. Tiles and the alignment
    # of each array add to it.
    shapes = CASES[name].batch().values()
    batch = sum(np.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in shapes)
    weights = 4 * step.parameters * (1 + SLOTS[name])
    least = weights + batch
    assert least <= compiled.memory["argument"] < 1.35 * least
    # Weights and slots are updated in place; the other outputs are a few scalars.
    assert compiled.memory["alias"] >= weights
    assert compiled.memory["output"] - compiled.memory["alias"] < 16384
    # The temporaries of this small step stay inside the chip; the program itself takes some HBM.
    assert compiled.total > compiled.memory["argument"]


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_work_of_a_transformer(name, planned):
    step, compiled = planned(name)
    # 2 FLOP per weight and token forwards, 4 backwards; the table only in the head's product.
    tokens, predictions = 8 * LENGTH, 8 * (4 if name == "bert" else LENGTH)
    block = 4 * HIDDEN**2 + 2 * HIDDEN * 256
    flops = 6 * (block * tokens + 256 * HIDDEN * predictions)
    flops += 12 * HIDDEN * LENGTH * tokens  # attention
    if name == "bert":
        flops += 6 * HIDDEN**2 * (predictions + 8)  # the head's layer and the pooler
    assert 0.9 * flops < compiled.matrix_flops < 1.3 * flops
    assert compiled.matrix_flops <= compiled.flops < 2 * compiled.matrix_flops
    assert compiled.loop_flops == 0
    # Weights and slots are read and written.
    assert compiled.hbm_bytes > 2 * 12 * step.parameters
    assert compiled.cycles > 0


@pytest.mark.long
@needs_compiler
def test_work_of_rematerialisation(planned):
    """The products of a forward pass; in a block's backward pass those of attention once more."""
    _, kept = planned("bert")
    attention = 2 * 8 * LENGTH * (4 * HIDDEN**2 + 2 * HIDDEN * LENGTH)
    feed_forward = 2 * 8 * LENGTH * 2 * HIDDEN * 256
    again = {"blocks": attention + feed_forward, "full": 2 * attention + feed_forward}
    for remat, flops in again.items():
        compiled = compile_for(
            V5E,
            lower_tensorflow(dataclasses.replace(CASES["bert"], remat=remat)).text,
            cache=None,
            time_limit=1000,
        )
        assert compiled.matrix_flops - kept.matrix_flops == pytest.approx(flops, rel=0.1), remat


@pytest.mark.long
@needs_compiler
def test_a_table_larger_than_the_chip(tmp_path):
    double = tf.function(lambda table: table * 2.0, jit_compile=True)
    lower = double.experimental_get_compiler_ir(tf.TensorSpec((40_000_000, 128), "float32"))
    text = lower(stage="stablehlo")
    compiled = compile_for(V5E, text, cache=tmp_path)
    assert not compiled.fits and compiled.refusal is None
    table = 40_000_000 * 128 * 4
    assert compiled.total == pytest.approx(2 * table, rel=0.01)  # it and the result
    # A program that does not fit is cached, too.
    assert len(list(tmp_path.iterdir())) == 1
    assert compile_for(V5E, text, cache=tmp_path, time_limit=1e-3) == compiled


@pytest.mark.long
@needs_compiler
def test_refusal_of_the_compiler_itself(tmp_path):
    text = """module { func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = stablehlo.custom_call @nowhere(%x) : (tensor<4xf32>) -> tensor<4xf32>
      return %y : tensor<4xf32> } }"""
    compiled = compile_for(V5E, text, cache=tmp_path)
    assert not compiled.fits and "nowhere" in compiled.refusal
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def lowered():
    """Function that returns a `LoweredStep`, made once."""
    made = {}

    def lower(name, topology, shard_optimizer=False, **more):
        key = (name, topology, shard_optimizer, *more.items())
        if key not in made:
            made[key] = lower_jax(toy(name, length=LENGTH, **more), topology, shard_optimizer)
        return made[key]

    return lower


def arguments(text):
    """The shapes of the program's arguments, and which of them are given away."""
    main = next(line for line in text.splitlines() if "func.func public @main" in line)
    main = main.split(") -> ")[0]
    found = re.findall(r"%arg\d+: tensor<([^>]*)> (.*?)(?=, %arg|$)", main)
    return [
        (shape, "tf.aliasing_output" in rest or "buffer_donor" in rest) for shape, rest in found
    ]


@pytest.mark.slow
@needs_compiler
def test_a_step_over_eight_devices(lowered):
    step, in_tensorflow = lowered("bert-tiny", EIGHT), lower_tensorflow(toy("bert-tiny"))
    assert step.parameters == in_tensorflow.parameters
    assert "mhlo.num_partitions = 8" in step.text and "stablehlo.all_reduce" in step.text
    # Weights and two slots are given away, the global batch is not.
    given_away = [shape for shape, donated in arguments(step.text) if donated]
    updated = in_tensorflow.text.count("output_index")  # TensorFlow's are in place, too
    assert len(given_away) == updated > 3 * 20
    kept = [shape for shape, donated in arguments(step.text) if not donated]
    assert sorted(kept) == sorted(
        ["i32", f"{8 * ROWS}xi32", *3 * [f"{8 * ROWS}x{LENGTH}xi32"]]
        + [f"{8 * ROWS}x3x{dtype}" for dtype in ("i32", "i32", "f32")]
    )
    # Without an empty name in it: the layers can be told from the program.
    assert "layer_0" in step.text


@pytest.mark.long
@needs_compiler
def test_parts_of_weights_and_slots(lowered):
    texts = (lowered("bert-tiny", EIGHT, part).text for part in (False, True))
    whole, part = (compile_for(EIGHT.chip, text, topology=EIGHT, cache=None) for text in texts)
    assert part.memory["argument"] < 0.3 * whole.memory["argument"]


@pytest.mark.long
@needs_compiler
def test_micro_batches_are_a_loop(lowered):
    one, four = lowered("bert-tiny", ONE), lowered("bert-tiny", ONE, accumulation=4)
    costs = [compile_for(ONE.chip, s.text, topology=ONE, cache=None) for s in (one, four)]
    assert costs[0].loop_flops == 0
    assert costs[1].loop_flops == pytest.approx(0.75 * costs[1].matrix_flops, rel=0.05)
    assert costs[1].matrix_flops == pytest.approx(costs[0].matrix_flops, rel=0.1)


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("name", ["bert-tiny", "elmo-mini"])
def test_the_work_is_that_of_tensorflows_step(name, lowered):
    step, in_tensorflow = lowered(name, ONE), lower_tensorflow(toy(name, length=LENGTH))
    found = compile_for(ONE.chip, step.text, topology=ONE, cache=None)
    want = compile_for(ONE.chip, in_tensorflow.text, cache=None)
    assert found.fits and want.fits
    # The compiler makes a product with one-hot vectors of TensorFlow's gather of the 16 numbers of
    # each of 50 characters a word, of 262.
    gathered = {"elmo-mini": 2 * (2 * ROWS * LENGTH) * 50 * 262 * 16}.get(name, 0)
    assert found.matrix_flops == pytest.approx(want.matrix_flops - gathered, rel=0.01)
    assert found.memory["argument"] == pytest.approx(want.memory["argument"], rel=0.02)
    # Weights and slots are updated in place.
    assert found.memory["alias"] >= 4 * step.parameters * (1 + SLOTS[name.split("-")[0]])


@pytest.fixture
def compiler_is(monkeypatch):
    """Function that replaces the compiler by a Python program."""
    popen = subprocess.Popen

    def replace(program):
        monkeypatch.setattr(compiler, "compiler_versions", lambda: {"jax": "0"})
        monkeypatch.setattr(
            subprocess, "Popen", lambda _, **more: popen([sys.executable, "-c", program], **more)
        )

    return replace


def test_a_compiler_that_hangs_is_stopped(compiler_is):
    compiler_is("import time; time.sleep(600)")
    with pytest.raises(TimeoutError, match="--time-limit"):
        compile_for(V5E, "", cache=None, time_limit=0.5)


def test_a_compiler_that_dies(compiler_is):
    compiler_is("import os, sys; print('the last words', file=sys.stderr, flush=True); os.abort()")
    with pytest.raises(ChildProcessError, match=r"SIGABRT.*: the last words$"):
        compile_for(V5E, "", cache=None)
    compiler_is("import sys; sys.exit(3)")
    with pytest.raises(ChildProcessError, match="code 3"):
        compile_for(V5E, "", cache=None)


@pytest.mark.parametrize(
    "message, needed",
    [
        ("Ran out of memory in memory space hbm. Used 20.50G of 15.75G hbm. Exceeded", 20.5),
        ("the total memory required (38.15G) exceeds available HBM (30.5G).", 38.15),
    ],
)
def test_out_of_memory(message, needed, compiler_is, tmp_path):
    message = f"RESOURCE_EXHAUSTED: {message}"
    compiler_is(f"import json; json.dump(dict(error={message!r}), open('result.json', 'w'))")
    compiled = compile_for(V5E, "", cache=tmp_path)
    assert (compiled.fits, compiled.needed, compiled.usable) == (
        False,
        int(needed * GIB),
        V5E.usable,
    )
    (entry,) = tmp_path.iterdir()
    assert json.loads(gzip.decompress(entry.read_bytes())) == [{"error": message}, ""]


def test_without_the_compiler(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "libtpu" else find(n))
    with pytest.raises(ImportError, match="libtpu is not installed"):
        compile_for(V5E, "", cache=None)
