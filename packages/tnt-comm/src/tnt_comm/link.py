"""What an allreduce costs between the ranks of a group, and the fusion threshold that follows."""

import math
import statistics
import time
from dataclasses import dataclass

import numpy as np

from tnt_comm.group import Group

LATENCY_SHARE = 0.25
"""Of the transfer time of a bucket at the automatic threshold."""

SMALLEST_KB, LARGEST_KB = 4, 16 * 1024
"""Limits of the automatic threshold; powers of two."""

_SMALL_BYTES, _NUM_SMALL = 4, 25
_LARGE_BYTES, _NUM_LARGE = 1024 * 1024, 7
_NUM_WARM_UP = 2


@dataclass(frozen=True)
class Link:
    """The cost of an allreduce of b bytes: about `latency_s + b / bytes_per_s` seconds.

    Args:
        latency_s: Time of a tiny allreduce, in seconds.
        bytes_per_s: Bandwidth, in bytes of the array per second.
    """

    latency_s: float
    bytes_per_s: float


def measure_link(group: Group | None = None) -> Link:
    """Measure some allreduces of 4 bytes and of 1 MiB, and take the medians.

    That takes milliseconds in shared memory, and a few tenths of a second on a network of 1 Gbit/s.

    Collective: every member of the group must call it.

    Args:
        group: All ranks by default.

    Returns:
        What the group's first member has measured, on all members.
    """
    members = group if group is not None else Group()
    small_s = _median_s(members, _SMALL_BYTES, _NUM_SMALL)
    large_s = _median_s(members, _LARGE_BYTES, _NUM_LARGE)
    # On a busy machine the large one can seem to be the faster one.
    transfer_s = large_s - small_s if large_s > small_s else large_s
    own = np.array([small_s, (_LARGE_BYTES - _SMALL_BYTES) / transfer_s])
    latency_s, bytes_per_s = members.broadcast(own).tolist()
    return Link(latency_s, bytes_per_s)


def fusion_threshold_for(link: Link) -> int:
    """Return the size from which a bucket is worth its own allreduce. Pure.

    It is the size b at which the latency is a quarter of the transfer time,

        latency_s = 0.25 * b / bytes_per_s,

    so latency is at most a fifth of the time of larger buckets. It is rounded to the nearest power
    of two (on the logarithmic scale), and at least 4 kB and at most 16 MB.

    Args:
        link: From `measure_link`.

    Returns:
        Bytes, for `FusionPlan`.
    """
    kilobytes = link.latency_s * link.bytes_per_s / LATENCY_SHARE / 1024
    exponent = round(math.log2(max(kilobytes, SMALLEST_KB)))
    return 1024 * min(1 << exponent, LARGEST_KB)


def _median_s(group: Group, num_bytes: int, num_runs: int) -> float:
    array = np.zeros(num_bytes // 4, np.float32)
    out = np.empty_like(array)
    times_s = []
    for _ in range(_NUM_WARM_UP + num_runs):
        begin = time.perf_counter()
        group.allreduce(array, out=out)
        times_s.append(time.perf_counter() - begin)
    return statistics.median(times_s[_NUM_WARM_UP:])
