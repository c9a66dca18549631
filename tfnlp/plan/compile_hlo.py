"""`python -m tfnlp.plan.compile_hlo REQUEST RESULT`: StableHLO through the TPU's compiler.

A process of its own: the compiler is part of jax, which must not meet TensorFlow in one process,
and it can be killed. REQUEST is a JSON file with `stablehlo` (a path), `topology` ("v5e:1x1"),
`options` of the topology, and `program`, where to write the compiled program as text. RESULT is
written as JSON: what `_figures` returns, or `error`, the compiler's message.
"""

import json
import pathlib
import sys


def main(request_path, result_path):
    """Compiles one request."""
    request = json.loads(pathlib.Path(request_path).read_text())
    try:
        result = _compile(**request)
    except (RuntimeError, ValueError) as error:
        result = {"error": str(error)}
    pathlib.Path(result_path).write_text(json.dumps(result))


def _compile(stablehlo, topology, options, program):
    # jax's public compile-only interface takes programs that jax has traced itself.
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax.experimental import topologies
    from jaxlib import xla_client
    from jaxlib.mlir import ir

    chips = topologies.get_topology_desc(platform="tpu", topology_name=topology, **options)
    device = chips.devices[0]
    with mlir.make_ir_context():
        module = ir.Module.parse(pathlib.Path(stablehlo).read_text())
        _drop_copies(module.operation)
        executable = device.client.compile(
            module,
            xla_client.DeviceList((device,)),
            compiler.get_compile_options(num_replicas=1, num_partitions=1),
        )
    pathlib.Path(program).write_text(executable.hlo_modules()[0].to_string())
    return _figures(executable)


def _drop_copies(operation):
    """Replaces each `mhlo.copy`, which jax doesn't know, by what it copies."""
    for region in operation.regions:
        for block in region.blocks:
            for op in list(block.operations):
                if op.operation.name == "mhlo.copy":
                    op.operation.results[0].replace_all_uses_with(op.operation.operands[0])
                    op.operation.erase()
                else:
                    _drop_copies(op.operation)


def _figures(executable):
    """Bytes of HBM by kind, and the compiler's own cost analysis, which counts loops once."""
    stats = executable.get_compiled_memory_stats()
    cost = executable.cost_analysis()
    kinds = ("argument", "output", "alias", "temp", "generated_code")
    return {
        "memory": {kind: getattr(stats, f"{kind}_size_in_bytes") for kind in kinds},
        "analysis": {"flops": cost["flops"], "bytes": cost["bytes accessed"]},
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
