"""The TPU or GPUs of this machine, found without TensorFlow or JAX."""

import ctypes.util
import glob
import os

_GOOGLE = "0x1ae0"  # PCI vendor
# Chips that TensorFlow only reaches through the PJRT runtime: PCI devices v5p, v5e, v6e, v7x.
_PJRT_CHIPS = ("0x0062", "0x0063", "0x006f", "0x0076")

_INSTALL = {
    "tpu": (
        "pip install 'jax[tpu]' trains on it with `engine` jax; tensorflow-tpu==2.20.0 with "
        "libtpu==0.0.21, in place of tensorflow, with `engine` tensorflow"
    ),
    "gpu": (
        "pip install 'tensorflow[and-cuda]' trains on it with `engine` tensorflow; 'jax[cuda13]' "
        "with `engine` jax"
    ),
}


def accelerator() -> str | None:
    """Return "tpu" or "gpu" if this machine has one that the user has not hidden, else None.

    A GPU is hidden with an empty `CUDA_VISIBLE_DEVICES` or -1, both with `JAX_PLATFORMS=cpu`.
    """
    if os.environ.get("JAX_PLATFORMS", "").strip() == "cpu":
        return None
    if has_tpu():
        return "tpu"
    if os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None
    return "gpu" if _has_gpu() else None


def has_tpu() -> bool:
    """Return whether this machine has TPU chips."""
    # Other devices may lie in /dev/vfio, so there the vendor decides.
    return bool(glob.glob("/dev/accel[0-9]*")) or (
        bool(glob.glob("/dev/vfio/[0-9]*")) and bool(_google_chips())
    )


def needs_pjrt() -> bool:
    """Return whether TensorFlow reaches this machine's TPU chips only through PJRT."""
    return any(chip in _PJRT_CHIPS for chip in _google_chips())


def unused(kind: str) -> str:
    """Return what to say if no installed package can use a TPU or GPU."""
    return (
        f"this machine has a {kind.upper()} that no installed package can use; {_INSTALL[kind]}; "
        "`strategy` cpu, or JAX_PLATFORMS=cpu in the environment, trains on the CPU"
    )


def _has_gpu() -> bool:
    # WSL has /dev/dxg for every GPU; the driver's library is there for one of NVIDIA alone.
    in_wsl = os.path.exists("/dev/dxg") and ctypes.util.find_library("cuda") is not None
    return bool(glob.glob("/dev/nvidia[0-9]*")) or in_wsl


def _google_chips() -> list[str]:
    """Return the PCI device numbers of Google's devices."""
    chips = []
    for path in glob.glob("/sys/bus/pci/devices/*/vendor"):
        if _read(path) == _GOOGLE:
            chips.append(_read(os.path.join(os.path.dirname(path), "device")))
    return chips


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read().strip()
    except OSError:  # not for this user
        return ""
