"""What the memory of this machine allows, measured by all ranks at the same time.

`memcpy`: each rank reads its arrays once and writes as much once. An allreduce of private arrays
cannot do with less.

`shared`: the arrays of all ranks lie in memory that all ranks can reach; each rank sums its slice of
them and writes the sum into every copy. That is the least any allreduce can do: every element of
every rank is read once and written once, and no rank does more than its share. It is done in blocks
that stay in the first-level cache between the sum and the copies, and without waiting for anybody.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Sequence

import numpy as np
import tnt_comm

from benchmarks.allreduce.variant import Variant, private_arrays



BLOCK_ELEMENTS = 16 * 1024


def copy_once(num_elements: Sequence[int]) -> Variant:
    """Copies of private arrays; the sums are not formed, so the inputs of one rank are expected."""
    arrays, copies = private_arrays(num_elements), private_arrays(num_elements)

    def run() -> None:
        for array, copy in zip(arrays, copies, strict=True):
            np.copyto(copy, array)

    return Variant(arrays, run, lambda: [])


def sum_slices(num_elements: Sequence[int]) -> Variant:
    """Each rank sums its slice of all ranks' arrays and writes it into all of them."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    total = sum(num_elements)
    copies = map_shared(size, total)
    ends = np.cumsum(num_elements)[:-1]
    bounds = np.linspace(0, total, size + 1).astype(int)
    blocks = range(bounds[rank], bounds[rank + 1], BLOCK_ELEMENTS)
    parts = [
        [copy[begin : min(begin + BLOCK_ELEMENTS, bounds[rank + 1])] for copy in copies]
        for begin in blocks
    ]

    def run() -> None:
        for first, second, *others in parts:
            np.add(first, second, out=first)
            for other in others:
                np.add(first, other, out=first)
            np.copyto(second, first)
            for other in others:
                np.copyto(other, first)

    def results() -> list[np.ndarray]:
        tnt_comm.barrier()  # the other ranks' slices
        return np.split(copies[rank], ends)

    return Variant(np.split(copies[rank], ends), run, results)


def map_shared(num_copies: int, num_elements: int) -> list[np.ndarray]:
    """Arrays in memory that all ranks share; no name of it is left. Collective."""
    num_bytes = num_copies * num_elements * 4
    path = np.zeros(256, np.uint8)
    if tnt_comm.get_rank() == 0:
        descriptor, name = tempfile.mkstemp(dir="/dev/shm", prefix="benchmark-")
        os.truncate(descriptor, num_bytes)
        path[: len(name)] = np.frombuffer(name.encode(), np.uint8)
    name = bytes(tnt_comm.broadcast(path)).rstrip(b"\0").decode()
    if tnt_comm.get_rank() != 0:
        descriptor = os.open(name, os.O_RDWR)
    memory = np.frombuffer(mmap.mmap(descriptor, num_bytes), np.float32)
    os.close(descriptor)
    tnt_comm.barrier()
    if tnt_comm.get_rank() == 0:
        os.unlink(name)
    return np.split(memory, num_copies)
