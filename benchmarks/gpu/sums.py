"""How long does the sum of a model's gradients take, if they are on the GPU?

Run by the launcher as `-m benchmarks.gpu.sums FOLDER OPTIONS`, all ranks on one GPU. In each
round all ranks copy as many bytes from the GPU to registered memory, then back; sum arrays of the
host; and sum tensors of the GPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import tnt_comm
from benchmarks.allreduce.gradient_sets import resnet50
from benchmarks.allreduce.values import check, fill
from benchmarks.gpu.copies import DOWN, UP, Link, time_copy
from benchmarks.gpu.driver import Gpu
from benchmarks.gpu.host_memory import private, registered
from benchmarks.gpu.rank import Tensors, plan_of, reducer_on_gpu, write_answer_of_rank
from benchmarks.gpu.results import PAGE, Options

MODELS: dict[str, Callable[[], list[int]]] = {
    "resnet50": resnet50,
    "small": lambda: [64, 3, 40000, 5000, 200, 1],
}
THRESHOLD_BYTES = 32 * 1024  # TNT_FUSION_THRESHOLD_KB by default

Works = dict[str, Callable[[], object]]


class SumsOfHost:
    """The gradients as arrays of numpy."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.inputs = [np.empty(size, np.float32) for size in sizes]
        self.sums = [np.empty_like(array) for array in self.inputs]
        fill(self.inputs, tnt_comm.get_rank())
        self._reducer = tnt_comm.GradientReducer(plan_of("float32", sizes, THRESHOLD_BYTES))

    def step(self) -> None:
        """The last gradients come first, as in backpropagation."""
        for i in reversed(range(len(self.inputs))):
            self._reducer.start(i, self.inputs[i], out=self.sums[i])
        for i in reversed(range(len(self.inputs))):
            self._reducer.finish(i)


class SumsOfGpu:
    """The same on the GPU."""

    def __init__(self, gpu: Gpu, inputs: Sequence[np.ndarray]) -> None:
        self._count = len(inputs)
        plan = plan_of("float32", [len(array) for array in inputs], THRESHOLD_BYTES)
        self._reducer = reducer_on_gpu(plan)
        self._tensors = Tensors(gpu, inputs)

    def step(self) -> None:
        """In the same order, until the GPU has all sums."""
        stream = self._tensors.stream
        for i in reversed(range(self._count)):
            self._tensors.start(self._reducer, i, 1.0, stream.handle)
        for i in reversed(range(self._count)):
            self._tensors.finish(self._reducer, i, stream.handle)
        stream.wait()

    def read(self) -> list[np.ndarray]:
        """All sums."""
        return [self._tensors.read(i, "float32") for i in range(self._count)]


def time_all(works: Works, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of this rank for each, in turn; the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            tnt_comm.barrier()
            begin = time.perf_counter()
            work()
            if number:
                times[name].append((time.perf_counter() - begin) * 1e3)
    return times


def answer(options: Options) -> dict[str, Any]:
    """Times of this rank, after a check of all sums."""
    gpu, sizes = Gpu(), MODELS[options.model]()
    num_bytes = 4 * sum(sizes)
    link = Link(gpu, (num_bytes + PAGE - 1) // PAGE * PAGE)
    memory, _ = registered(private(link.num_bytes), gpu)  # as tnt-comm's on one host
    of_host = SumsOfHost(sizes)
    of_gpu = SumsOfGpu(gpu, of_host.inputs)
    of_host.step()
    of_gpu.step()
    check(of_host.sums, tnt_comm.get_size())
    check(of_gpu.read(), tnt_comm.get_size())
    works: Works = {
        "d2h_ms": partial(time_copy, link, DOWN, memory),
        "h2d_ms": partial(time_copy, link, UP, memory),
        "host_ms": of_host.step,
        "step_ms": of_gpu.step,
    }
    return {"tensors": len(sizes), "bytes": num_bytes, "times": time_all(works, options.rounds)}


if __name__ == "__main__":
    write_answer_of_rank(answer)
