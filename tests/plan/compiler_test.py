"""Toy steps through the TPU's compiler, against figures computed from shapes."""

import dataclasses
import gzip
import importlib.util
import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.plan.toys import needs_compiler, toy
from tfnlp.plan import compiler
from tfnlp.plan.chips import CHIPS, GIB
from tfnlp.plan.compiler import compile_for
from tfnlp.plan.lowering import lower, lower_function, planned_step

pytestmark = pytest.mark.timeout(1200)
V5E = CHIPS["v5e"]
HIDDEN, LENGTH = 128, 16
CASES = {
    "bert": toy("bert-tiny", predictions=4),
    "gpt": toy("gpt-mini", dropout=0.0),
    "elmo": toy("elmo-mini", samples=64, dropout=0.0),
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Function that returns a step and its compiled program, compiled once."""
    cache, made = tmp_path_factory.mktemp("plans"), {}

    def plan(name):
        if name not in made:
            step = planned_step(CASES[name])
            made[name] = step, compile_for(V5E, lower(step), cache=cache, time_limit=1000)
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
    trained = sum(int(np.prod(v.shape)) for v in step.model.trainable_variables)
    slots = 2 if name in ("bert", "gpt") else 1
    batch = sum(np.prod(s.shape) * s.dtype.size for s in step.specs)
    least = 4 * trained * (1 + slots) + batch
    assert least <= compiled.memory["argument"] < 1.35 * least
    # Weights and slots are updated in place; the other outputs are a few scalars.
    assert compiled.memory["alias"] >= 4 * trained * (1 + slots)
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
            lower(planned_step(dataclasses.replace(CASES["bert"], remat=remat))),
            cache=None,
            time_limit=1000,
        )
        assert compiled.matrix_flops - kept.matrix_flops == pytest.approx(flops, rel=0.1), remat


@pytest.mark.long
@needs_compiler
def test_a_table_larger_than_the_chip(tmp_path):
    def double(table):
        return table * 2.0

    text = lower_function(double, (tf.TensorSpec((40_000_000, 128), "float32"),))
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
