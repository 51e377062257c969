"""A rank of the job that measures the network: one on each host."""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict

import numpy as np

import tnt_comm
from tarantella.doctor.engine_library import loaded_library
from tarantella.doctor.tell import begin, tell

_MOST_HOSTS_FOR_ALL_PAIRS = 4

_SMALL_BYTES, _NUM_SMALL = 8, 100
_LARGE_BYTES, _NUM_LARGE = 16 << 20, 5
_NUM_WARM_UP = 2


def main() -> None:
    """Measure one pair of hosts after the other, so that they do not disturb each other."""
    try:
        _measure_pairs()
    except (tnt_comm.CommError, ValueError) as error:
        tell("failure", check="network", why=str(error))


def pairs_of(size: int) -> list[tuple[int, int]]:
    """Return which of so many hosts are measured together: all, or neighbours in a ring. Pure."""
    if size <= _MOST_HOSTS_FOR_ALL_PAIRS:
        return [(one, other) for one in range(size) for other in range(one + 1, size)]
    return [(one, (one + 1) % size) for one in range(size)]


def _measure_pairs() -> None:
    tnt_comm.init()
    rank = tnt_comm.get_rank()
    library = loaded_library()
    if rank == 0:
        tell("network_engine", **({} if library is None else asdict(library)))
    for pair in pairs_of(tnt_comm.get_size()):
        if rank == 0:
            begin(f"network {pair[0]} {pair[1]}")
        if rank in pair:
            latency_s, bytes_per_s = _measure(tnt_comm.Group(sorted(pair)))
            if rank == pair[0]:
                tell("link", pair=pair, latency_s=latency_s, bytes_per_s=bytes_per_s)
        tnt_comm.barrier(label="next pair")


def _measure(group: tnt_comm.Group) -> tuple[float, float]:
    """Return half a round trip in seconds, and bytes per second one way."""
    latency_s = _median_s(group, _SMALL_BYTES, _NUM_SMALL) / 2
    # There with all bytes, back with a few.
    large_s = _median_s(group, _LARGE_BYTES, _NUM_LARGE) - latency_s
    return latency_s, _LARGE_BYTES / large_s


def _median_s(group: tnt_comm.Group, num_bytes: int, num_runs: int) -> float:
    there, back = np.zeros(num_bytes, np.uint8), np.zeros(_SMALL_BYTES, np.uint8)
    times_s = []
    for _ in range(_NUM_WARM_UP + num_runs):
        begin_s = time.perf_counter()
        group.broadcast(there, root=0, out=there)
        group.broadcast(back, root=1, out=back)
        times_s.append(time.perf_counter() - begin_s)
    return statistics.median(times_s[_NUM_WARM_UP:])


if __name__ == "__main__":
    main()
