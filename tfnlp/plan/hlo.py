"""Costs of a compiled TPU program, from its text.

The compiler's own cost analysis counts a loop's body once, and counts bytes that never leave the
chip's inner memory. Here a loop's body counts once for each pass, and only bytes that are read
from or written to HBM count.
"""

import math
import re
from collections.abc import Sequence

_SIZES = {"pred": 1, "s4": 0.5, "u4": 0.5, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "bf16": 2}
_SIZES.update({"f16": 2, "s32": 4, "u32": 4, "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8})
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](?:\{([^}]*)\})?")
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_NAME = re.compile(r"%([\w.\-]+)")
# Operations that move no data, or are counted where they start.
_FREE = frozenset(
    "parameter constant get-tuple-element tuple bitcast after-all iota copy-done slice-done "
    "async-done async-update while call conditional partition-id replica-id".split()
)


class Instruction:
    """One line: `%name = shape opcode(operands), attributes`."""

    def __init__(self, line: str) -> None:
        left, rest = line.strip().removeprefix("ROOT ").split(" = ", 1)
        self.name, self.root = left.lstrip("%"), line.lstrip().startswith("ROOT ")
        end = _closing(rest, 0) + 1 if rest.startswith("(") else rest.index(" ")
        self.shape, rest = rest[:end], rest[end:].lstrip()
        start = rest.index("(")
        self.opcode, end = rest[:start], _closing(rest, start)
        self.inside = rest[start + 1 : end]
        self.operands = _NAME.findall(self.inside)
        self.attributes = rest[end + 1 :]

    def called(self, attribute: str) -> str | None:
        """Return the name of the computation in `attribute=%name`, or None."""
        match = re.search(rf"\b{attribute}=%([\w.\-]+)", self.attributes)
        return match and match[1]


Computation = dict[str, Instruction]


def parse(text: str) -> tuple[dict[str, Computation], str | None]:
    """Return computations by name, each a dict of `Instruction`s by name; and the entry's name."""
    computations, entry, current = {}, None, None
    for line in text.splitlines():
        if current is None:
            head = _HEAD.match(line)
            if head:
                current = computations.setdefault(head[2], {})
                entry = head[2] if head[1] else entry
        elif line.startswith("}"):
            current = None
        elif " = " in line:
            instruction = Instruction(line)
            current[instruction.name] = instruction
    return computations, entry


def program_costs(text: str) -> dict[str, int]:
    """Return the costs of one run of the program.

    Args:
        text: an optimized HLO module.

    Returns:
        dict: `matrix_flops` of matrix products and convolutions; `loop_flops`, the part of it that
        an analysis misses which counts loops once; `hbm_bytes` read and written; and `cycles`, the
        sum of the compiler's own estimates, 0 for operations without one.
    """
    computations, entry = parse(text)
    flops, hbm, cycles, once = _Costs(computations).of(entry)
    return {
        "matrix_flops": flops,
        "loop_flops": flops - once,
        "hbm_bytes": hbm,
        "cycles": cycles,
    }


class _Costs:
    def __init__(self, computations: dict[str, Computation]) -> None:
        self.computations = computations

    def of(self, name: str) -> tuple[int, int, int, int]:
        """Return (flops, HBM bytes, cycles, flops with loops counted once) of a computation."""
        total = [0, 0, 0, 0]
        computation = self.computations[name]
        for op in computation.values():
            if op.opcode == "while":
                trips = self._trips(op.called("condition"))
                flops, hbm, cycles, once = self.of(op.called("body"))
                costs = (trips * flops, trips * hbm, trips * cycles, once)
            elif op.opcode == "conditional":
                branches = _NAME.findall(op.attributes.split("metadata=")[0])
                every = [self.of(b) for b in branches if b in self.computations]
                costs = max(every, default=(0, 0, 0, 0))
            elif op.opcode == "call" or op.opcode == "async-start":
                costs = self.of(op.called("to_apply") or op.called("calls"))
            else:
                flops = self._flops(op, computation)
                estimate = re.search(r'"estimated_cycles":"(\d+)"', op.attributes)
                costs = (flops, self._bytes(op, computation), int(estimate[1]) if estimate else 0)
                costs = (*costs, flops)
            total = [a + b for a, b in zip(total, costs, strict=True)]
        return tuple(total)

    def _trips(self, condition: str) -> int:
        """Return the passes of a loop; in a training step it counts from 0 up to a constant."""
        limits = [
            int(op.inside)
            for op in self.computations[condition].values()
            if op.opcode == "constant" and op.inside.isdigit()
        ]
        return limits[0] if len(limits) == 1 else 1

    def _flops(self, op: Instruction, computation: Computation) -> int:
        inner = op.called("calls") if op.opcode == "fusion" else None
        if inner:
            return sum(
                self._flops(x, self.computations[inner]) for x in self.computations[inner].values()
            )
        if op.opcode == "convolution":
            return _convolution_flops(op, computation)
        if op.opcode == "dot":
            lhs = _dims(computation[op.operands[0]].shape)
            axes = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", op.attributes)[1]
            contracted = math.prod(lhs[int(a)] for a in axes.split(",") if a)
            return 2 * math.prod(_dims(op.shape)) * contracted
        return 0

    def _bytes(self, op: Instruction, computation: Computation) -> int:
        if op.opcode in _FREE:
            return 0
        shapes = [computation[x].shape for x in op.operands]
        if op.opcode in ("copy-start", "slice-start"):
            # The result comes first in a copy's shape, in a slice's after the whole source.
            moved = _arrays(op.shape)[op.opcode == "slice-start"]
            return _hbm(moved) + (_padded(moved) if _hbm(shapes[0]) else 0)
        if op.opcode == "fusion":
            return self._fusion_bytes(op, shapes)
        if op.opcode in ("dynamic-slice", "gather"):
            return _hbm(op.shape) + (_padded(op.shape) if _hbm(shapes[0]) else 0)
        if op.opcode == "dynamic-update-slice":
            return _hbm(shapes[1]) + (_padded(shapes[1]) if _hbm(op.shape) else 0)
        if op.opcode == "scatter":
            return _hbm(shapes[2]) + (2 * _padded(shapes[2]) if _hbm(op.shape) else 0)
        return _hbm(op.shape) + sum(_hbm(s) for s in shapes)

    def _fusion_bytes(self, op: Instruction, shapes: Sequence[str]) -> int:
        """Return the bytes of a fusion.

        Operands of which only a slice is read, and results of which a slice is written, count as
        that slice.
        """
        inner = self.computations[op.called("calls")]
        parameters = _parameters(inner)
        total = 0
        for index, shape in enumerate(shapes):
            full = _hbm(shape)
            sliced = self._read(parameters[index], inner) if full else 0
            total += full if sliced is None else min(full, sliced)
        root = next(x for x in inner.values() if x.root)
        results = [inner[x] for x in root.operands] if root.opcode == "tuple" else [root]
        written_shapes = _arrays(op.shape)
        if len(results) != len(written_shapes):  # an operation with several results
            return total + _hbm(op.shape)
        for result, shape in zip(results, written_shapes, strict=True):
            full = _hbm(shape)
            sliced = self._written(result, inner) if full else 0
            total += full if sliced is None else min(full, sliced)
        return total

    def _read(self, value: Instruction, inner: Computation, updated: bool = False) -> int | None:
        """Return the bytes of slices that a fusion reads of a value in it, or None: all of it.

        `updated` values are arrays into which a slice was written in place.
        """
        if value.root and not updated:
            return None
        total = 0
        for use in inner.values():
            for index in (i for i, name in enumerate(use.operands) if name == value.name):
                more = self._read_by(use, index, inner, updated)
                if more is None:
                    return None
                total += more
        return total

    def _read_by(
        self, use: Instruction, index: int, inner: Computation, updated: bool
    ) -> int | None:
        if index == 0 and use.opcode in ("dynamic-slice", "gather", "slice"):
            return _padded(use.shape)
        if index == 0 and use.opcode == "dynamic-update-slice":
            return self._read(use, inner, updated=True)
        if use.opcode == "bitcast":
            return self._read(use, inner, updated)
        if use.opcode == "fusion":
            called = self.computations[use.called("calls")]
            return self._read(_parameters(called)[index], called, updated)
        return 0 if updated and use.root and use.opcode == "tuple" else None

    def _written(self, result: Instruction, inner: Computation) -> int | None:
        """Return the bytes of the slices that a fusion writes of a result, or None: all of it.

        A slice alone is written where the rest of the result is there before: in a parameter.
        """
        if result.opcode == "bitcast":
            return self._written(inner[result.operands[0]], inner)
        if result.opcode == "fusion":
            called = self.computations[result.called("calls")]
            return self._written(next(x for x in called.values() if x.root), called)
        if result.opcode != "dynamic-update-slice":
            return None
        before, update = (inner[x] for x in result.operands[:2])
        while before.opcode == "bitcast":
            before = inner[before.operands[0]]
        rest = 0 if before.opcode == "parameter" else self._written(before, inner)
        return None if rest is None else rest + _padded(update.shape)


def _parameters(computation: Computation) -> dict[int, Instruction]:
    return {int(x.inside): x for x in computation.values() if x.opcode == "parameter"}


def _convolution_flops(op: Instruction, computation: Computation) -> int:
    """Return 2 x products; positions in the padding are not multiplied."""
    lhs, rhs = (_dims(computation[x].shape) for x in op.operands[:2])
    out = _dims(op.shape)
    labels = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", op.attributes)
    inputs, kernel, output = labels.groups()
    groups = re.search(r"batch_group_count=(\d+)", op.attributes)
    flops = 2 * out[output.index("b")] * out[output.index("f")] * rhs[kernel.index("i")]
    flops //= int(groups[1]) if groups else 1
    stated = re.search(r"window=\{([^}]*)\}", op.attributes)
    window = dict(re.findall(r"(\w+)=([\dx_\-]+)", stated[1] if stated else ""))
    for axis in range(len(kernel) - 2):
        label = str(axis)
        flops *= _positions(
            lhs[inputs.index(label)],
            rhs[kernel.index(label)],
            out[output.index(label)],
            *(
                int(window[k].split("x")[axis]) if k in window else 1
                for k in ("stride", "lhs_dilate", "rhs_dilate")
            ),
            int(window["pad"].split("x")[axis].split("_")[0]) if "pad" in window else 0,
        )
    return flops


def _positions(
    size: int, kernel: int, out: int, stride: int, lhs_dilate: int, rhs_dilate: int, pad: int
) -> int:
    """Return the number of pairs of output and kernel positions at which there is an input."""
    last = (size - 1) * lhs_dilate
    return sum(
        0 <= (place := o * stride + k * rhs_dilate - pad) <= last and place % lhs_dilate == 0
        for o in range(out)
        for k in range(kernel)
    )


def _closing(text: str, start: int) -> int:
    """Return the index of the parenthesis that closes the one at `start`."""
    depth = 0
    for index in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index
    raise ValueError(f"unbalanced parentheses in {text[:100]!r}")


def _arrays(shape: str) -> list[str]:
    return [match[0] for match in _ARRAY.finditer(shape)]


def _dims(shape: str) -> list[int]:
    return [int(n) for n in _ARRAY.match(shape)[2].split(",") if n]


def _hbm(shape: str) -> int:
    """Return the bytes of those arrays of `shape` that are in HBM; `S(n)` marks the others."""
    return sum(_padded(x) for x in _arrays(shape) if not re.search(r"S\([1-9]", x))


def _padded(shape: str) -> int:
    """Return the bytes of an array, its last dimensions padded to whole tiles `T(8,128)`."""
    dtype, dims, layout = _ARRAY.match(shape).groups()
    dims = [int(n) for n in dims.split(",") if n]
    order, _, tiles = (layout or "").partition(":")
    if order:
        dims = [dims[int(axis)] for axis in reversed(order.split(","))]
    tile = re.search(r"T\(([\d,]+)\)", tiles)
    if tile and dims:
        sizes = [int(n) for n in tile[1].split(",")][-len(dims) :]
        lead = dims[: len(dims) - len(sizes)]
        last = dims[len(dims) - len(sizes) :]
        dims = lead + [-(-n // t) * t for n, t in zip(last, sizes, strict=True)]
    return int(math.prod(dims) * _SIZES.get(dtype, 0))
