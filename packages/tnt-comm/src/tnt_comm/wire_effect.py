"""What compression gains and loses on the link between the ranks of a group."""

import statistics
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tnt_comm.fusion_plan import FusionPlan, TensorSpec
from tnt_comm.gradient_reducer import GradientReducer
from tnt_comm.group import Group

SAMPLE_ELEMENTS = 1024 * 1024
"""Of the float32 tensor that is summed."""

_NUM_RUNS, _NUM_WARM_UP = 5, 2


@dataclass(frozen=True)
class WireEffect:
    """The sum of one tensor, compressed and not.

    Args:
        plain_s: Seconds from start to finish without compression, the median.
        compressed_s: The same with compression.
        relative_error: norm(compressed - plain) / norm(plain) of the sums, Euclidean.
    """

    plain_s: float
    compressed_s: float
    relative_error: float


def measure_wire_effect(wire_dtype: str, group: Group | None = None) -> WireEffect:
    """Sum 4 MiB of normally distributed numbers with and without compression.

    Collective: every member of the group must call it, with the same wire dtype.

    Args:
        wire_dtype: "bfloat16" or "float16".
        group: All ranks by default.

    Returns:
        What the group's first member has measured, on all members.

    Raises:
        ValueError: If the wire dtype is a different one.
    """
    members = group if group is not None else Group()
    sample = np.random.default_rng(members.rank).standard_normal(SAMPLE_ELEMENTS, np.float32)
    plain_s, plain = _time_sum(sample, None, members)
    compressed_s, compressed = _time_sum(sample, wire_dtype, members)
    error = np.linalg.norm(compressed - plain) / np.linalg.norm(plain)
    return WireEffect(*members.broadcast(np.array([plain_s, compressed_s, error])).tolist())


def _time_sum(
    sample: npt.NDArray[np.float32], wire_dtype: str | None, group: Group
) -> tuple[float, npt.NDArray[np.float32]]:
    plan = FusionPlan([TensorSpec("sample", "float32", sample.size)], 0, wire_dtype)
    reducer = GradientReducer(plan, group, name="effect of compression")
    out = np.empty_like(sample)
    times_s = []
    for _ in range(_NUM_WARM_UP + _NUM_RUNS):
        group.barrier()
        begin = time.perf_counter()
        reducer.start(0, sample)
        reducer.finish(0, out)
        times_s.append(time.perf_counter() - begin)
    reducer.close()
    return statistics.median(times_s[_NUM_WARM_UP:]), out
