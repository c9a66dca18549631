"""The JAX engine's training step as StableHLO, made in a process whose Keras runs on JAX.

`python -m tfnlp.plan.jax_lowering REQUEST RESULT` is that process. REQUEST is a JSON file with
`preset` (its fields), `topology` and `options` of the compiler, `shard_optimizer`, and `stablehlo`,
the path to write the program to. RESULT is written as JSON: `parameters`.
"""

from __future__ import annotations

import json
import math
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import jax
import keras
from jax.experimental import topologies

from tfnlp.plan.presets import Preset, step_settings
from tfnlp.training.engines.jax import JaxEngine
from tfnlp.training.engines.jax_devices import JaxDevices


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
    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    devices = JaxDevices(chips.devices, shard_optimizer)
    planned = Preset(**preset)
    # Variables made in it know their shapes; their values are never computed.
    with keras.StatelessScope(initialize_variables=False):
        settings = step_settings(planned)
    engine = JaxEngine(settings, devices)
    batch = {name: jax.ShapeDtypeStruct(*shape) for name, shape in planned.batch().items()}
    # With the names of operations: the compiler's messages and its program show them.
    pathlib.Path(stablehlo).write_text(engine.lower(batch).as_text(debug_info=True))
    return {"parameters": sum(math.prod(v.shape) for v in engine.body.weights)}


if __name__ == "__main__":
    main(*sys.argv[1:])
