"""`python -m tfnlp.plan.compile_hlo REQUEST RESULT`: StableHLO through the TPU's compiler.

It runs in a process of its own, which can be killed. REQUEST is a JSON file with `stablehlo` (a
path), `topology` ("v5e:1x1"), `options` of the topology, and `program`, the path to write the
compiled program to, as text. The program runs on as many devices of the topology as it says that
it has partitions. RESULT is written as JSON: the dict of `_figures`, or `error`, the compiler's
message.

The compiler is reached through internals of jax: its public compile-only interface takes programs
that jax has traced itself.
"""

import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax.experimental import topologies
from jaxlib import xla_client
from jaxlib.mlir import ir


def main(request_path: str, result_path: str) -> None:
    """Compile one request."""
    request = json.loads(pathlib.Path(request_path).read_text())
    try:
        result = _compile(**request)
    except (RuntimeError, ValueError) as error:
        result = {"error": str(error)}
    pathlib.Path(result_path).write_text(json.dumps(result))


def _compile(
    stablehlo: str, topology: str, options: Mapping[str, Any], program: str
) -> dict[str, dict[str, float]]:
    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    with mlir.make_ir_context():
        module = ir.Module.parse(pathlib.Path(stablehlo).read_text())
        _drop_copies(module.operation)
        attributes = module.operation.attributes
        name = "mhlo.num_partitions"
        partitions = int(attributes[name]) if name in attributes else 1
        devices = tuple(chips.devices[:partitions])
        executable = devices[0].client.compile(
            module,
            xla_client.DeviceList(devices),
            compiler.get_compile_options(
                num_replicas=1,
                num_partitions=partitions,
                device_assignment=np.array([[device.id for device in devices]]),
            ),
        )
    pathlib.Path(program).write_text(executable.hlo_modules()[0].to_string())
    return _figures(executable)


def _drop_copies(operation: Any) -> None:
    """Replace each `mhlo.copy`, which jax does not know, by its operand."""
    for region in operation.regions:
        for block in region.blocks:
            for op in list(block.operations):
                if op.operation.name == "mhlo.copy":
                    op.operation.results[0].replace_all_uses_with(op.operation.operands[0])
                    op.operation.erase()
                else:
                    _drop_copies(op.operation)


def _figures(executable: Any) -> dict[str, dict[str, float]]:
    """Return bytes of HBM by kind and the compiler's cost analysis, which counts loops once."""
    stats = executable.get_compiled_memory_stats()
    cost = executable.cost_analysis()
    kinds = ("argument", "output", "alias", "temp", "generated_code")
    return {
        "memory": {kind: getattr(stats, f"{kind}_size_in_bytes") for kind in kinds},
        "analysis": {"flops": cost["flops"], "bytes": cost["bytes accessed"]},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
