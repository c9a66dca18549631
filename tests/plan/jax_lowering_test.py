"""The JAX engine's step, lowered for devices that are not here and compiled for a TPU."""

import re

import pytest

from tests.plan.toys import needs_compiler, toy
from tfnlp.plan.chips import parse_topology
from tfnlp.plan.compiler import compile_for
from tfnlp.plan.lowering import lower, lower_jax, planned_step

pytestmark = [pytest.mark.timeout(1200), needs_compiler]
ONE, EIGHT = parse_topology("v5e:1x1"), parse_topology("v5e:2x4")
ROWS, LENGTH = 8, 16


@pytest.fixture(scope="module")
def lowered():
    """Function that returns a `LoweredStep`, made once."""
    made = {}

    def lowered(name, topology, shard_optimizer=False, **more):
        key = (name, topology, shard_optimizer, *more.items())
        if key not in made:
            made[key] = lower_jax(toy(name, length=LENGTH, **more), topology, shard_optimizer)
        return made[key]

    return lowered


def arguments(text):
    """The shapes of the program's arguments, and which of them are given away."""
    main = next(line for line in text.splitlines() if "func.func public @main" in line)
    main = main.split(") -> ")[0]
    found = re.findall(r"%arg\d+: tensor<([^>]*)> (.*?)(?=, %arg|$)", main)
    return [
        (shape, "tf.aliasing_output" in rest or "buffer_donor" in rest) for shape, rest in found
    ]


@pytest.mark.slow
def test_a_step_over_eight_devices(lowered):
    step, in_tensorflow = lowered("bert-tiny", EIGHT), planned_step(toy("bert-tiny"))
    assert step.parameters == in_tensorflow.parameters
    assert "mhlo.num_partitions = 8" in step.text and "stablehlo.all_reduce" in step.text
    # Weights and two slots are given away, the global batch is not.
    weights = len(in_tensorflow.model.trainable_variables)
    given_away = [shape for shape, donated in arguments(step.text) if donated]
    assert len(given_away) == 3 * weights
    kept = [shape for shape, donated in arguments(step.text) if not donated]
    assert sorted(kept) == sorted(
        ["i32", f"{8 * ROWS}xi32", *3 * [f"{8 * ROWS}x{LENGTH}xi32"]]
        + [f"{8 * ROWS}x3x{dtype}" for dtype in ("i32", "i32", "f32")]
    )
    # Without an empty name in it: the layers can be told from the program.
    assert "layer_0" in step.text


@pytest.mark.long
def test_parts_of_weights_and_slots(lowered):
    texts = (lowered("bert-tiny", EIGHT, part).text for part in (False, True))
    whole, part = (compile_for(EIGHT.chip, text, topology=EIGHT, cache=None) for text in texts)
    assert part.memory["argument"] < 0.3 * whole.memory["argument"]


@pytest.mark.long
def test_micro_batches_are_a_loop(lowered):
    one, four = lowered("bert-tiny", ONE), lowered("bert-tiny", ONE, accumulation=4)
    costs = [compile_for(ONE.chip, s.text, topology=ONE, cache=None) for s in (one, four)]
    assert costs[0].loop_flops == 0
    assert costs[1].loop_flops == pytest.approx(0.75 * costs[1].matrix_flops, rel=0.05)
    assert costs[1].matrix_flops == pytest.approx(costs[0].matrix_flops, rel=0.1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bert-tiny", "elmo-mini"])
def test_the_work_is_that_of_tensorflows_step(name, lowered):
    step, in_tensorflow = lowered(name, ONE), planned_step(toy(name, length=LENGTH))
    found = compile_for(ONE.chip, step.text, topology=ONE, cache=None)
    want = compile_for(ONE.chip, lower(in_tensorflow), cache=None)
    assert found.fits and want.fits
    # The compiler makes a product with one-hot vectors of TensorFlow's gather of the 16 numbers of
    # each of 50 characters a word, of 262.
    gathered = {"elmo-mini": 2 * (2 * ROWS * LENGTH) * 50 * 262 * 16}.get(name, 0)
    assert found.matrix_flops == pytest.approx(want.matrix_flops - gathered, rel=0.01)
    assert found.memory["argument"] == pytest.approx(want.memory["argument"], rel=0.02)
    # Weights and slots are updated in place.
    slots = {"bert-tiny": 2, "elmo-mini": 1}[name]
    assert found.memory["alias"] >= 4 * step.parameters * (1 + slots)
