"""tnt-comm, and the limits of the machine with tnt-comm as the clock that starts all ranks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

import tnt_comm
from benchmarks.allreduce import limits
from benchmarks.allreduce.libraries import LIMIT, OUR_OUT_OF_PLACE
from benchmarks.allreduce.variant import Library, Make, Variant, private_arrays

THRESHOLD_BYTES = 32 * 1024  # the default of tnt-keras


def open_library() -> Library:
    """Join the job. Collective."""
    tnt_comm.init()
    variants: dict[str, Make] = {
        "in place": in_place,
        OUR_OUT_OF_PLACE: out_of_place,
        "new result": as_new_result,
        "tnt_comm.empty": in_shared_memory,
        "GradientReducer": through_reducer,
        "GradientReducer, copies": through_copying_reducer,
        f"{LIMIT}memcpy": limits.copy_once,
        f"{LIMIT}shared": limits.sum_chunks,
    }
    return Library(
        rank=tnt_comm.get_rank(),
        size=tnt_comm.get_size(),
        versions={"tnt-comm": tnt_comm.__version__, "numpy": np.__version__},
        barrier=tnt_comm.barrier,
        variants=variants,
    )


def in_place(num_elements: Sequence[int]) -> Variant:
    """One call per array, `out` the array itself."""
    return _in_place(private_arrays(num_elements))


def in_shared_memory(num_elements: Sequence[int]) -> Variant:
    """The same on arrays that all ranks can reach."""
    return _in_place([tnt_comm.empty(number, np.float32) for number in num_elements])


def _in_place(arrays: Sequence[np.ndarray]) -> Variant:
    allreduce = tnt_comm.allreduce
    if len(arrays) == 1:
        return Variant(arrays, partial(allreduce, arrays[0], out=arrays[0]), lambda: arrays)

    def run() -> None:
        for array in arrays:
            allreduce(array, out=array)

    return Variant(arrays, run, lambda: arrays)


def out_of_place(num_elements: Sequence[int]) -> Variant:
    """One call per array, into another array."""
    arrays, sums = private_arrays(num_elements), private_arrays(num_elements)
    allreduce = tnt_comm.allreduce

    def run() -> None:
        for array, out in zip(arrays, sums, strict=True):
            allreduce(array, out=out)

    return Variant(arrays, run, lambda: sums)


def as_new_result(num_elements: Sequence[int]) -> Variant:
    """One call per array, which makes the array of the sum; kept until the next run has it."""
    arrays = private_arrays(num_elements)
    sums = [*arrays]
    allreduce = tnt_comm.allreduce

    def run() -> None:
        for index, array in enumerate(arrays):
            sums[index] = allreduce(array)

    return Variant(arrays, run, lambda: sums)


def through_reducer(num_elements: Sequence[int]) -> Variant:
    """Start all arrays, last layer first as backpropagation does, then wait for all sums."""
    # Each array is the reducer's from its start on, as gradients are in a training step, and holds
    # the sum in the end.
    arrays = private_arrays(num_elements)
    reducer = reducer_of(num_elements)
    backwards = range(len(arrays) - 1, -1, -1)

    def run() -> None:
        for index in backwards:
            reducer.start(index, arrays[index], out=arrays[index])
        for index in backwards:
            reducer.finish(index)

    return Variant(arrays, run, lambda: arrays, reducer.close)


def through_copying_reducer(num_elements: Sequence[int]) -> Variant:
    """The same with arrays that stay the caller's: they are copied into buckets."""
    arrays = private_arrays(num_elements)
    reducer = reducer_of(num_elements)
    backwards = range(len(arrays) - 1, -1, -1)
    sums: dict[int, np.ndarray] = {}

    def run() -> None:
        sums.clear()  # the optimizer has used them, so their memory can be used again
        for index in backwards:
            reducer.start(index, arrays[index])
        for index in backwards:
            sums[index] = reducer.finish(index)

    def close() -> None:
        sums.clear()
        reducer.close()

    return Variant(arrays, run, lambda: [sums[index] for index in range(len(arrays))], close)


def reducer_of(num_elements: Sequence[int]) -> tnt_comm.GradientReducer:
    """A reducer of the default fusion. Collective."""
    specs = [
        tnt_comm.TensorSpec(f"gradient {index}", "float32", number)
        for index, number in enumerate(num_elements)
    ]
    return tnt_comm.GradientReducer(tnt_comm.FusionPlan(specs, THRESHOLD_BYTES))
