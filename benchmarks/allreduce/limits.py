"""What the memory of this machine allows, measured by all ranks at the same time.

`memcpy`: each rank reads its arrays once and writes as much once, into other memory of its own.

`shared`: the arrays of all ranks lie in memory that all ranks can reach; each rank sums its chunk
of them and writes the sum into every copy. That is the least any allreduce can do: every element of
every rank is read once and written once, and no rank does more than its share. It is a loop of C++,
compiled for this very machine, because numpy needs two passes. Nobody waits for anybody in it.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tnt_comm
from benchmarks.allreduce.variant import Variant, private_arrays

SOURCE = Path(__file__).with_suffix(".cpp")


def copy_once(num_elements: Sequence[int]) -> Variant:
    """Copies of private arrays. There is no sum to check: no results."""
    arrays, copies = private_arrays(num_elements), private_arrays(num_elements)
    pairs = list(zip(copies, arrays, strict=True))

    def run() -> None:
        for copy, array in pairs:
            np.copyto(copy, array)

    return Variant(arrays, run, list)


def sum_chunks(num_elements: Sequence[int]) -> Variant:
    """Each rank sums its chunk of all ranks' arrays and writes it into all of them. Collective."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    total = sum(num_elements)
    copies = map_shared(size, total)
    own = np.split(copies[rank], np.cumsum(num_elements)[:-1])
    addresses = (ctypes.c_void_p * size)(*(copy.ctypes.data for copy in copies))
    begin, end = total * rank // size, total * (rank + 1) // size
    sum_up = compiled()

    def results() -> list[np.ndarray]:
        tnt_comm.barrier()  # for the other ranks' chunks
        return own

    return Variant(own, lambda: sum_up(addresses, size, begin, end), results)


@functools.cache
def compiled() -> ctypes._FuncPointer:
    """The loop of `limits.cpp`, with every instruction this machine has."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "limits.so"
        compiler = os.environ.get("CXX", "c++")
        options = ["-O3", "-march=native", "-shared", "-fPIC"]
        subprocess.run([compiler, *options, str(SOURCE), "-o", str(library)], check=True)
        function = ctypes.CDLL(str(library)).sum_chunks
    function.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t]
    function.restype = None
    return function


def map_shared(num_copies: int, num_elements: int) -> list[np.ndarray]:
    """Float32 arrays in memory that all ranks share; it ends with them. Collective."""
    num_bytes = num_copies * num_elements * np.dtype(np.float32).itemsize
    name = np.zeros(256, np.uint8)
    if tnt_comm.get_rank() == 0:
        descriptor, path = tempfile.mkstemp(dir="/dev/shm", prefix="benchmark-")
        os.truncate(descriptor, num_bytes)
        name[: len(path)] = np.frombuffer(path.encode(), np.uint8)
    path = bytes(tnt_comm.broadcast(name)).rstrip(b"\0").decode()
    if tnt_comm.get_rank() != 0:
        descriptor = os.open(path, os.O_RDWR)
    memory = mmap.mmap(descriptor, num_bytes)
    os.close(descriptor)
    tnt_comm.barrier()
    if tnt_comm.get_rank() == 0:
        os.unlink(path)
    return np.split(np.frombuffer(memory, np.float32), num_copies)
