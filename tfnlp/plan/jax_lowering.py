"""The JAX engine's training step as StableHLO, made in a process whose Keras runs on JAX.

`python -m tfnlp.plan.jax_lowering REQUEST RESULT` is that process. REQUEST is a JSON file with
`preset` (its fields), `topology` and `options` of the compiler, `shard_optimizer`, and `stablehlo`,
the path to write the program to. RESULT is written as JSON: `parameters`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import keras

from tfnlp.plan.chips import Topology
from tfnlp.plan.compiler import compile_target, compiler_versions
from tfnlp.plan.presets import Preset
from tfnlp.plan.processes import run_module
from tfnlp.plan.recipes import step_settings

if TYPE_CHECKING:
    from tfnlp.training.engines.jax import JaxEngine
    from tfnlp.training.engines.jax_devices import JaxDevices


class LoweredStep(NamedTuple):
    """A training step over all devices of a topology: StableHLO, and how many weights it trains."""

    text: str
    parameters: int


def lower_jax(
    preset: Preset, topology: Topology, shard_optimizer: bool, time_limit: float = 3600
) -> LoweredStep:
    """Return the step that `JaxEngine` runs, lowered for a TPU.

    `preset` has the rows of one device. With several devices the sum of the gradients is in the
    program.
    """
    compiler_versions()
    with tempfile.TemporaryDirectory(prefix="tfnlp_plan_") as name:
        folder = pathlib.Path(name)
        rows = preset.rows * topology.devices
        request = {
            "preset": {**dataclasses.asdict(preset), "rows": rows},
            **compile_target(topology.chip, topology),
            "shard_optimizer": shard_optimizer,
            "stablehlo": str(folder / "step.mlir"),
        }
        environment = {"KERAS_BACKEND": "jax"}
        found = run_module(__name__, request, folder, time_limit, environment)
        return LoweredStep((folder / "step.mlir").read_text(), **found)


def main(request_path: str, result_path: str) -> None:
    """Lower the step of one request."""
    request = json.loads(pathlib.Path(request_path).read_text())
    pathlib.Path(result_path).write_text(json.dumps(_lower(**request)))


def _lower(
    preset: Mapping[str, Any],
    topology: str,
    options: Mapping[str, Any],
    shard_optimizer: bool,
    stablehlo: str,
) -> dict[str, Any]:
    from jax.experimental import topologies

    from tfnlp.training.engines.jax_devices import JaxDevices

    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    devices = JaxDevices(chips.devices, shard_optimizer)
    engine, batch = planned_engine(Preset(**preset), devices)
    # With the names of operations: the compiler's messages and its program show them.
    pathlib.Path(stablehlo).write_text(engine.lower(batch).as_text(debug_info=True))
    return {"parameters": sum(math.prod(v.shape) for v in engine.body.weights)}


def planned_engine(preset: Preset, devices: JaxDevices) -> tuple[JaxEngine, dict[str, Any]]:
    """Return the engine of a preset without values of variables, and the shapes of its batch.

    `preset` has the rows of all devices, which need not be there.
    """
    import jax

    from tfnlp.training.engines.jax import JaxEngine

    # Variables made in it know their shapes; their values are never computed.
    with keras.StatelessScope(initialize_variables=False):
        settings = step_settings(preset)
    batch = {name: jax.ShapeDtypeStruct(*shape) for name, shape in preset.batch().items()}
    return JaxEngine(settings, devices), batch


if __name__ == "__main__":
    main(*sys.argv[1:])
