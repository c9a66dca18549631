"""Keeps the memory of a step for the next one, where JAX trains on the CPU.

XLA allocates the intermediate results of a step when it starts and frees them when it ends. glibc
gives blocks of that size back to the system at once, and the system fills each page of the next
step's with zeros: a quarter of the processor time of a step of a small BERT.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys

_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8  # of `mallopt` in glibc's malloc.h
_ACCELERATORS = ("libtpu", "jax_plugins")  # what is installed beside JAX for a TPU or a GPU


def keep_freed_memory() -> bool:
    """Have glibc keep what is freed, if JAX has only the CPU; return whether it does.

    To be called before JAX starts its threads, which is when it makes its first array. All threads
    then allocate from the one heap that can grow. `TFNLP_KEEP_MEMORY=0` prevents it.
    """
    if os.environ.get("TFNLP_KEEP_MEMORY") == "0" or not _only_cpu():
        return False
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
        mallopt.argtypes, mallopt.restype = [ctypes.c_int, ctypes.c_int], ctypes.c_int
    except (AttributeError, OSError):  # another C library
        return False
    # One heap; no block outside of it; its end is never given back.
    settings = ((_ARENA_MAX, 1), (_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1))
    return all([mallopt(*setting) for setting in settings])


def _only_cpu() -> bool:
    platforms = os.environ.get("JAX_PLATFORMS")
    if platforms:
        return platforms == "cpu"
    return not any(importlib.util.find_spec(name) for name in _ACCELERATORS)
