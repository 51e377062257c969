"""What the programs of ranks share: a reducer for tensors on the GPU, and how it is used.

`TNT_GPU_SUMS` says what sums these tensors.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tnt_comm
from benchmarks.gpu.driver import Gpu
from benchmarks.gpu.results import Options, write_answer
from benchmarks.gpu.special_values import Array


class Tensors:
    """Arrays of one dtype in the memory of a GPU, and a place for the sum of each.

    They lie one behind the other, as those of an allocator that gives away parts of one block:
    so not all of them begin where a GPU can load several elements at once.
    """

    def __init__(self, gpu: Gpu, arrays: Sequence[Array]) -> None:
        self.stream = gpu.make_stream()
        self._num_bytes = [array.nbytes for array in arrays]
        begins = np.cumsum([0, *self._num_bytes[:-1]])
        inputs, sums = (gpu.allocate(sum(self._num_bytes)) for _ in range(2))
        self._inputs = [inputs + int(begin) for begin in begins]
        self._sums = [sums + int(begin) for begin in begins]
        for address, array in zip(self._inputs, arrays, strict=True):
            self.stream.copy_from_host(address, array.ctypes.data, array.nbytes)
        self.stream.wait()

    def start(self, reducer: tnt_comm.GradientReducer, i: int, scale: float, stream: int) -> None:
        """Start the sum of one of them."""
        reducer.start_on_gpu(i, self._inputs[i], scale, stream=stream)

    def finish(self, reducer: tnt_comm.GradientReducer, i: int, stream: int) -> None:
        """Let the stream have its sum."""
        reducer.finish_on_gpu(i, self._sums[i], stream=stream)

    def read(self, i: int, dtype: str) -> Array:
        """A sum, after all that is in the stream."""
        array = np.empty(self._num_bytes[i] // np.dtype(dtype).itemsize, np.dtype(dtype))
        self.stream.copy_to_host(array.ctypes.data, self._sums[i], array.nbytes)
        self.stream.wait()
        return array


def plan_of(
    dtype: str, sizes: Sequence[int], threshold_bytes: int, wire_dtype: str | None = None
) -> tnt_comm.FusionPlan:
    """Tensors of those numbers of elements."""
    specs = [tnt_comm.TensorSpec(f"tensor {i}", dtype, size) for i, size in enumerate(sizes)]
    return tnt_comm.FusionPlan(specs, threshold_bytes, wire_dtype)


def reducer_on_gpu(plan: tnt_comm.FusionPlan) -> tnt_comm.GradientReducer:
    """A reducer that uses the GPU as it is asked for."""
    reducer = tnt_comm.GradientReducer(plan, gpu=0)
    found, why = reducer.gpu_sums
    wanted = os.environ["TNT_GPU_SUMS"]
    if found != wanted:
        raise RuntimeError(f"sums by {wanted} were asked for, and are by {found}: {why}")
    return reducer


def write_answer_of_rank(answer: Callable[[Options], dict[str, Any]]) -> None:
    """Find and write what this rank is asked."""
    tnt_comm.init()
    write_answer(answer, tnt_comm.get_rank())
