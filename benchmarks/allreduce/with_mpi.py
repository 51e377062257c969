"""Any MPI, through mpi4py."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import mpi4py
import numpy as np
from mpi4py import MPI

from benchmarks.allreduce.variant import Call, Library, Variant, bucketed, private_arrays

WORLD = MPI.COMM_WORLD
BUCKET_BYTES = 25 * 1024**2


def open_library() -> Library:
    """MPI is up as soon as mpi4py is imported. Collective."""
    release = MPI.Get_library_version().splitlines()[0].strip("\0").split(",")[0]
    return Library(
        rank=WORLD.Get_rank(),
        size=WORLD.Get_size(),
        versions={"mpi": " ".join(release.split()), "mpi4py": mpi4py.__version__},
        barrier=WORLD.Barrier,
        variants={
            "in place": in_place,
            "out of place": out_of_place,
            "25 MiB buckets": lambda numbers: bucketed(numbers, BUCKET_BYTES, sum_in_place),
        },
    )


def sum_in_place(array: np.ndarray) -> Call:
    # The explicit datatype spares mpi4py looking at the array in every call.
    return partial(WORLD.Allreduce, MPI.IN_PLACE, [array, MPI.FLOAT])


def in_place(num_elements: Sequence[int]) -> Variant:
    """One call per array, in place."""
    arrays = private_arrays(num_elements)
    return Variant(arrays, one_after_the_other(map(sum_in_place, arrays)), lambda: arrays)


def out_of_place(num_elements: Sequence[int]) -> Variant:
    """One call per array, into another array."""
    arrays, sums = private_arrays(num_elements), private_arrays(num_elements)
    calls = [
        partial(WORLD.Allreduce, [array, MPI.FLOAT], [out, MPI.FLOAT])
        for array, out in zip(arrays, sums, strict=True)
    ]
    return Variant(arrays, one_after_the_other(calls), lambda: sums)


def one_after_the_other(calls: Iterable[Call]) -> Call:
    """One call that makes all of them; a single one is not wrapped."""
    todo = list(calls)
    if len(todo) == 1:
        return todo[0]

    def run() -> None:
        for call in todo:
            call()

    return run
