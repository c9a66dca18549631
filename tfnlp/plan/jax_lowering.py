"""The JAX engine's training step as StableHLO, made in a process whose Keras runs on JAX.

`python -m tfnlp.plan.jax_lowering REQUEST RESULT` is that process. REQUEST is a JSON file with
`preset` (its settings), `sizes`, `rows` of the global batch, `topology` and `options` of the
compiler, `shard_optimizer`, and `stablehlo`, the path to write the program to. RESULT is written
as JSON: `parameters` and `argument_bytes`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tfnlp.plan.processes import run_module

if TYPE_CHECKING:
    from tfnlp.plan.chips import Topology
    from tfnlp.plan.presets import Preset
    from tfnlp.training.engines.jax import JaxEngine
    from tfnlp.training.engines.jax_devices import JaxDevices


@dataclasses.dataclass(frozen=True)
class LoweredStep:
    """A training step over all devices of a topology, ready to be compiled.

    Args:
        text: StableHLO.
        parameters: number of trained weights.
        argument_bytes: of one device, by kind, without the padding of tiles.
        gradient_bytes: of the gradients that the devices sum in a step.
    """

    text: str
    parameters: int
    argument_bytes: dict[str, int]
    gradient_bytes: int


def lower_jax(
    preset: Preset,
    rows: int,
    topology: Topology,
    shard_optimizer: bool = False,
    time_limit: float = 3600,
) -> LoweredStep:
    """Return the step that `JaxEngine` runs, lowered for a TPU.

    Args:
        preset: the model.
        rows: of the batch on one device.
        topology: the devices; with several the sum of the gradients is in the program.
        shard_optimizer: each device keeps a part of the weights and slots.
        time_limit: seconds.
    """
    from tfnlp.plan.compiler import compile_target, compiler_versions

    compiler_versions()
    with tempfile.TemporaryDirectory(prefix="tfnlp_plan_") as name:
        folder = pathlib.Path(name)
        request = {
            "preset": preset.settings,
            "sizes": preset.sizes,
            "rows": rows * topology.devices,
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
    sizes: Mapping[str, Any],
    rows: int,
    topology: str,
    options: Mapping[str, Any],
    shard_optimizer: bool,
    stablehlo: str,
) -> dict[str, Any]:
    from jax.experimental import topologies

    from tfnlp.plan.presets import Preset
    from tfnlp.training.engines.jax_devices import JaxDevices

    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    devices = JaxDevices(chips.devices, shard_optimizer)
    model = Preset(**preset)
    model.sizes = dict(sizes)
    engine, batch = planned_engine(model, rows, devices)
    # With the names of operations: the compiler's messages and its program show them.
    pathlib.Path(stablehlo).write_text(engine.lower(batch).as_text(debug_info=True))
    return _sizes(engine, batch, devices)


def planned_engine(
    preset: Preset, rows: int, devices: JaxDevices
) -> tuple[JaxEngine, dict[str, Any]]:
    """Return the engine of a preset without values of variables, and the shapes of its batch.

    Args:
        preset: the model.
        rows: of the global batch.
        devices: that need not be there.
    """
    import jax
    import keras

    from tfnlp.plan.recipes import recipe_optimizer, step_settings
    from tfnlp.training.engines.jax import JaxEngine

    arguments = preset.arguments(rows)
    # Variables made in it know their shapes; their values are never computed.
    with keras.StatelessScope(initialize_variables=False):
        task = preset.task(arguments)
        optimizer = recipe_optimizer(preset, task.model)
    shapes = preset.plan.batch(preset.sizes, arguments)
    batch = {name: jax.ShapeDtypeStruct(*shape) for name, shape in shapes.items()}
    return JaxEngine(step_settings(preset, arguments, task, optimizer), devices), batch


def _sizes(engine: JaxEngine, batch: Mapping[str, Any], devices: JaxDevices) -> dict[str, Any]:
    """Return what a `LoweredStep` has beside its text."""
    import numpy as np

    from tfnlp.training.engines.jax_devices import ROWS, SHARED

    def size(x: Any, spec: Any) -> int:
        shape = devices.sharding(spec).shard_shape(tuple(x.shape))
        return math.prod(shape) * np.dtype(x.dtype).itemsize

    settings, body = engine.body.settings, engine.body
    task, slots = settings.task, settings.optimizer.slots.values()
    return {
        "parameters": sum(math.prod(v.shape) for v in body.weights),
        "argument_bytes": {
            "weights": sum(size(v, devices.of_weight(v.shape)) for v in body.weights),
            "slots": sum(size(v, devices.of_weight(v.shape)) for v in slots),
            "state": sum(size(v, SHARED) for v in [*body.others, *task.tables])
            + sum(size(v, ROWS) for v in task.state.values()),
            "batch": sum(size(x, ROWS) for x in batch.values()) + 4,  # the step's number, int32
        },
        "gradient_bytes": sum(size(v, SHARED) for v in body.weights),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
