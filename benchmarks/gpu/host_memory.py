"""Memory of the host to copy to and from, in the ways that programs have it."""

from __future__ import annotations

import ctypes
import mmap
import os
import time
from ctypes import c_void_p
from typing import NamedTuple

from benchmarks.gpu.driver import PORTABLE, Gpu

FILLING = 0x3C


class HostMemory(NamedTuple):
    """A range of whole pages, all of which are there."""

    name: str
    address: int
    num_bytes: int


def private(num_bytes: int) -> HostMemory:
    """Of this process alone, as from `malloc`."""
    return _mapped("private", mmap.mmap(-1, num_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))


def shared(num_bytes: int) -> HostMemory:
    """Pages as of POSIX shared memory, but not of /dev/shm, which containers keep small."""
    file = os.memfd_create("copies")
    try:
        os.ftruncate(file, num_bytes)
        return _mapped("shared", mmap.mmap(file, num_bytes))
    finally:
        os.close(file)


def of_driver(num_bytes: int, gpu: Gpu) -> HostMemory:
    """Allocated and pinned by the driver."""
    address = c_void_p()
    gpu.call("cuMemHostAlloc", ctypes.byref(address), num_bytes, PORTABLE)
    return _filled(HostMemory("of the driver", address.value or 0, num_bytes))


def registered(memory: HostMemory, gpu: Gpu) -> tuple[HostMemory, float]:
    """The same memory, pinned from now on, and how many seconds that took."""
    begin = time.perf_counter()
    gpu.register(memory.address, memory.num_bytes)
    seconds = time.perf_counter() - begin
    return memory._replace(name=f"{memory.name}, registered"), seconds


_mappings: list[mmap.mmap] = []  # a GPU may copy until the process ends


def _mapped(name: str, mapping: mmap.mmap) -> HostMemory:
    _mappings.append(mapping)
    address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    return _filled(HostMemory(name, address, len(mapping)))


def _filled(memory: HostMemory) -> HostMemory:
    ctypes.memset(memory.address, FILLING, memory.num_bytes)
    return memory
