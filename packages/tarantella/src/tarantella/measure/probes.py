"""What one message, one byte and one copy cost, between hosts and on a host. All are collective."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np

import tnt_comm

_SMALL_BYTES, _NUM_SMALL = 8, 200
_LARGE_BYTES, _NUM_LARGE = 16 << 20, 7
_NUM_WARM_UP = 2
_NUM_AT_ONCE = 64
_COPY_BYTES, _NUM_COPIES = 64 << 20, 5
_BUCKET_BYTES, _NUM_SUMS = 16 << 20, 15
_MATRIX, _NUM_PRODUCTS = 1024, 50
_BYTES_MOVED_BY_A_COPY = 3  # read, fetch what is overwritten, write


def latency_s(group: tnt_comm.Group) -> float:
    """Return half the time of 8 bytes there and back, in seconds: two broadcasts."""
    return _round_trip_s(group, _SMALL_BYTES, _NUM_SMALL) / 2


def bytes_per_s(group: tnt_comm.Group) -> float:
    """Return what one rank sends another in a second: 16 MiB there, a few bytes back."""
    large_s = _round_trip_s(group, _LARGE_BYTES, _NUM_LARGE)
    return _LARGE_BYTES / max(large_s - latency_s(group), 1e-9)


def message_s(group: tnt_comm.Group) -> float:
    """Return the time that a further message takes at each end, in seconds.

    64 allreduces of 8 bytes are under way at once, each of which is a message there and one back;
    so a message takes a 64th of their time, half of it for sending and half for receiving.
    """
    arrays = [np.zeros(_SMALL_BYTES // 4, np.float32) for _ in range(_NUM_AT_ONCE)]

    def exchange() -> None:
        for ticket in [group.start_allreduce(array) for array in arrays]:
            ticket.wait()

    return _median_s(exchange, _NUM_SMALL // 10) / _NUM_AT_ONCE / 2


def thread_s_per_byte(group: tnt_comm.Group) -> float:
    """Return the processor time of this process for each byte that it sends or receives."""
    array = np.zeros(_LARGE_BYTES, np.uint8)
    group.broadcast(array, out=array)
    begin_s = time.process_time()
    for _ in range(_NUM_LARGE):
        group.broadcast(array, out=array)
    return (time.process_time() - begin_s) / (_NUM_LARGE * _LARGE_BYTES)


def copy_bytes_per_s() -> float:
    """Return what one core copies in a second, 64 MiB of main memory to another place. Local."""
    source, target = (np.ones(_COPY_BYTES, np.uint8) for _ in range(2))
    return _COPY_BYTES / _median_s(lambda: np.copyto(target, source), _NUM_COPIES)


def memory_bytes_per_s(group: tnt_comm.Group) -> float:
    """Return what crosses the memory of a host in a second if all its ranks copy at once.

    A copy moves three bytes for each: one read, one fetched because it is overwritten, one written.
    """
    group.barrier()
    own = np.array([copy_bytes_per_s()])
    return _BYTES_MOVED_BY_A_COPY * float(group.allreduce(own)[0])


def combine_bytes_per_s() -> float:
    """Return the bytes of a float32 operand of 16 MiB that one core adds in a second. Local."""
    total, operand = (np.ones(_BUCKET_BYTES // 4, np.float32) for _ in range(2))
    return _BUCKET_BYTES / _median_s(lambda: np.add(total, operand, out=total), _NUM_SUMS)


def jitter(group: tnt_comm.Group) -> float:
    """Return the standard deviation of the time of equal work, relative to its mean.

    Work is a product of matrices, on all ranks at once; the result is the median over the ranks.
    Outliers stay in it, since they are what ranks wait for.
    """
    matrix = np.ones((_MATRIX, _MATRIX), np.float32)
    group.barrier()
    times_s = [_seconds(lambda: matrix @ matrix) for _ in range(_NUM_PRODUCTS)]
    own = np.array([statistics.stdev(times_s) / statistics.mean(times_s)])
    return float(np.median(group.allgather(own)))


def _round_trip_s(group: tnt_comm.Group, num_bytes: int, num_runs: int) -> float:
    there, back = np.zeros(num_bytes, np.uint8), np.zeros(_SMALL_BYTES, np.uint8)

    def exchange() -> None:
        group.broadcast(there, root=0, out=there)
        group.broadcast(back, root=1, out=back)

    return _median_s(exchange, num_runs)


def _median_s(act: Callable[[], object], num_runs: int) -> float:
    return statistics.median([_seconds(act) for _ in range(_NUM_WARM_UP + num_runs)][_NUM_WARM_UP:])


def _seconds(act: Callable[[], object]) -> float:
    begin_s = time.perf_counter()
    act()
    return time.perf_counter() - begin_s
