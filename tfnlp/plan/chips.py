"""TPU chips: their published figures, and topologies such as `v5e:2x4`."""

import dataclasses
import math
import re

GIB = 2**30


@dataclasses.dataclass(frozen=True)
class Chip:
    """Figures of one *device*, which runs one replica of a training step.

    A chip of v2 and v3 has two devices, each with a core and half of the memory; from v4 on a
    chip is one device.

    Args:
        name: as in a topology, "v5e".
        usable: bytes of HBM that the compiler allows a program (libtpu 0.0.42): the published
            size (8, 16, 32, 16, 95 and 32 GB) without the runtime's share.
        flops: peak bfloat16 FLOP per second.
        bandwidth: bytes per second to and from HBM.
        axes: of the torus, 2 or 3.
        units: matrix units of 128 x 128; one of 256 x 256 counts as four.
        cores: devices per chip.
        options: further options of the compiler's topology.
    """

    name: str
    usable: int
    flops: float
    bandwidth: float
    axes: int
    units: int
    cores: int = 1
    options: tuple[tuple[str, str], ...] = ()

    @property
    def ridge(self) -> float:
        """FLOP per byte above which a step is bound by arithmetic, below by memory."""
        return self.flops / self.bandwidth

    @property
    def clock(self) -> float:
        """Cycles per second, from the peak: a unit multiplies and adds 128 x 128 pairs a cycle."""
        return self.flops / (2 * 128 * 128 * self.units)


# Peak bf16 and HBM of v5e, v5p, v6e: "System architecture" in Google Cloud's TPU documentation;
# of v4 Jouppi et al. 2023, table 4; of v2 and v3 Jouppi et al. 2020, table 2 (half a chip each).
CHIPS = {
    chip.name: chip
    for chip in (
        Chip("v2", int(7.48 * GIB), 23e12, 350e9, 2, 1, cores=2),
        Chip("v3", int(15.48 * GIB), 61.5e12, 450e9, 2, 2, cores=2),
        Chip(
            "v4",
            int(30.75 * GIB),
            275e12,
            1200e9,
            3,
            8,
            options=(("chip_config_name", "megacore"),),
        ),
        Chip("v5e", int(15.75 * GIB), 197e12, 819e9, 2, 4),
        Chip("v5p", int(95.74 * GIB), 459e12, 2765e9, 3, 8),
        Chip("v6e", int(31.25 * GIB), 918e12, 1638e9, 2, 16),
    )
}


@dataclasses.dataclass(frozen=True)
class Topology:
    """Chips of one kind in a torus: `chip`, and its `shape` in chips."""

    chip: Chip
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.chip.name}:{'x'.join(map(str, self.shape))}"

    @property
    def chips(self) -> int:
        """Chips of the whole topology."""
        return math.prod(self.shape)

    @property
    def devices(self) -> int:
        """Replicas that the whole topology runs."""
        return self.chips * self.chip.cores


def parse_topology(text: str) -> Topology:
    """Parse a topology such as `v5e:2x4`."""
    match = re.fullmatch(r"(\w+):(\d+(?:x\d+)*)", text)
    if match is None:
        raise ValueError(
            f"--topology {text} is not CHIP:SHAPE; give for example v5e:2x4 for 8 chips of v5e"
        )
    name, shape = match[1], tuple(int(n) for n in match[2].split("x"))
    if name not in CHIPS:
        raise ValueError(
            f"--topology {text}: no chip is called {name}; choose one of {', '.join(CHIPS)}"
        )
    chip = CHIPS[name]
    if len(shape) != chip.axes or min(shape) < 1:
        example = "2x4" if chip.axes == 2 else "2x2x1"
        raise ValueError(
            f"--topology {text}: chips of {name} have {chip.axes} dimensions, each 1 or more; "
            f"give for example {name}:{example}"
        )
    return Topology(chip, shape)
