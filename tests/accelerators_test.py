"""Which TPUs and GPUs are found, from the files that the kernel shows."""

import pytest

from tfnlp import accelerators


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """Make a machine of paths and of PCI devices, `{name: (vendor, device)}`."""

    def make(paths=(), chips=()):
        for number, (vendor, device) in enumerate(chips):
            folder = tmp_path / str(number)
            folder.mkdir()
            (folder / "vendor").write_text(f"{vendor}\n")
            (folder / "device").write_text(f"{device}\n")
        vendors = sorted(map(str, tmp_path.glob("*/vendor")))

        def glob(pattern):
            kind = pattern.split("[")[0]
            return vendors if pattern.endswith("vendor") else [p for p in paths if kind in p]

        monkeypatch.setattr(accelerators.glob, "glob", glob)

    for name in ("CUDA_VISIBLE_DEVICES", "JAX_PLATFORMS"):
        monkeypatch.delenv(name, raising=False)
    return make


GOOGLE = "0x1ae0"


@pytest.mark.parametrize(
    "paths, chips, kind, pjrt",
    [
        ([], [], None, False),
        (["/dev/accel0"], [], "tpu", False),
        (["/dev/accel0"], [(GOOGLE, "0x005e")], "tpu", False),  # v4
        (["/dev/vfio/0"], [(GOOGLE, "0x0063")], "tpu", True),  # v5e
        (["/dev/vfio/7"], [("0x8086", "0x0063")], None, False),  # somebody else's device
        (["/dev/nvidia0"], [("0x10de", "0x1eb8")], "gpu", False),
    ],
)
def test_what_a_machine_has(machine, paths, chips, kind, pjrt):
    machine(paths, chips)
    assert accelerators.accelerator() == kind
    assert accelerators.needs_pjrt() is pjrt


def test_what_the_user_hides_is_not_there(machine, monkeypatch):
    machine(["/dev/nvidia0"])
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert accelerators.accelerator() is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert accelerators.accelerator() is None
