"""Have sums of tensors on the GPU the bits that tnt-comm gives them on processors?

Run by the launcher as `-m benchmarks.gpu.bits FOLDER OPTIONS`, all ranks on one GPU. Tensors
of every dtype, wire dtype and factor are summed by a reducer for GPUs and by one for arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import tnt_comm
from benchmarks.gpu.driver import Gpu
from benchmarks.gpu.rank import Tensors, plan_of, reducer_on_gpu, write_answer_of_rank
from benchmarks.gpu.results import Options
from benchmarks.gpu.special_values import DTYPES, Array, special_values, unsigned_of

SCALES = (1.0, 1 / 3, -0.5, 0.0)
ODD_SIZES = (1, 17, 4999)  # beside the many: what follows them does not begin at a multiple of 16
THRESHOLD_BYTES = 32768
NUM_STEPS = 3  # each half of a bucket is used again
ALL_STREAMS = 0


class Case(NamedTuple):
    """What is summed, and how it travels."""

    dtype: str
    wire_dtype: str | None
    scale: float


def cases() -> Iterator[Case]:
    """Every dtype as it is, and float32 rounded. Pure."""
    for dtype, wire in [*((each, None) for each in DTYPES), *(("float32", w) for w in DTYPES[2:])]:
        for scale in SCALES:
            yield Case(dtype, wire, scale)


class Difference(NamedTuple):
    """How many elements differ, and the first of them in words."""

    num_wrong: int
    first: str


def difference(case: Case, sums: list[Array], wanted: list[Array]) -> Difference:
    """Compare all bits. Pure."""
    unsigned = unsigned_of(case.dtype)
    num_wrong, first = 0, ""
    for i, (has, needs) in enumerate(zip(sums, wanted, strict=True)):
        bits, needed = has.view(unsigned), needs.view(unsigned)
        wrong = np.flatnonzero(bits != needed)
        num_wrong += len(wrong)
        if len(wrong) and not first:
            at = wrong[0]
            first = (
                f"{case}: element {at} of tensor {i}: {bits[at]:#x} on the GPU, {needed[at]:#x} on "
                "processors"
            )
    return Difference(num_wrong, first)


def inputs_of(case: Case, options: Options) -> list[Array]:
    """What this rank adds: the special values, cut into tensors, small ones first."""
    count = options.num_patterns + sum(ODD_SIZES)
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    values = special_values(case.dtype, rank, size, count)
    # The small ones get what comes last.
    whole, *small = np.split(values, np.cumsum([options.num_patterns, *ODD_SIZES[:-1]]))
    return [*small, whole]


def compare(gpu: Gpu, case: Case, options: Options) -> Difference:
    """Sum on the GPU and on processors, a few steps; the stream is named in all but the last."""
    arrays = inputs_of(case, options)
    sizes = [len(array) for array in arrays]
    plan = plan_of(case.dtype, sizes, THRESHOLD_BYTES, case.wire_dtype)
    of_gpus = reducer_on_gpu(plan)
    of_hosts = tnt_comm.GradientReducer(plan)
    tensors = Tensors(gpu, arrays)
    for i, array in enumerate(arrays):
        of_hosts.start(i, array, case.scale)
    wanted = [np.array(of_hosts.finish(i)) for i in range(len(arrays))]
    found = Difference(0, "")
    for step in range(NUM_STEPS):
        stream = ALL_STREAMS if step == NUM_STEPS - 1 else tensors.stream.handle
        for i in range(len(arrays)):
            tensors.start(of_gpus, i, case.scale, stream)
        for i in range(len(arrays)):
            tensors.finish(of_gpus, i, stream)
        summed = [tensors.read(i, case.dtype) for i in range(len(arrays))]
        one = difference(case, summed, wanted)
        found = Difference(found.num_wrong + one.num_wrong, found.first or one.first)
    of_gpus.close()
    of_hosts.close()
    return found


def answer(options: Options) -> dict[str, Any]:
    """The differences of all cases, on this rank."""
    gpu = Gpu()
    # The library then keeps its kernels, which the driver compiles, from one case to the next.
    if obstacle := tnt_comm.gpu_obstacle(0):
        raise RuntimeError(obstacle)
    found = {case: compare(gpu, case, options) for case in cases()}
    wrong = [each.first for each in found.values() if each.num_wrong]
    return {
        "cases": len(found),
        "elements": len(found) * NUM_STEPS * (options.num_patterns + sum(ODD_SIZES)),
        "num_wrong": sum(each.num_wrong for each in found.values()),
        "first": wrong[0] if wrong else "",
    }


if __name__ == "__main__":
    write_answer_of_rank(answer)
