"""One training step's allreduces, replayed: what `job.hpp` has, for Python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from benchmarks.simulate import library

RING = -1
SHARED_MEMORY = -2
# In the order of the C++ enumeration.
ALGORITHMS = (
    "auto",
    "one_shot",
    "two_shot",
    "recursive_doubling",
    "halving_doubling",
    "pipelined",
)
NAMES = {**dict(enumerate(ALGORITHMS)), RING: "ring", SHARED_MEMORY: "shared memory"}
NUMBERS = {name: number for number, name in NAMES.items()}


@dataclass(frozen=True)
class Costs:
    """What things cost, in seconds and seconds per byte; see `job.hpp`. All nothing by default."""

    latency: float = 0
    gap: float = 0
    local_latency: float = 0
    local_gap: float = 0
    send: float = 0
    receive: float = 0
    message_gap: float = 0
    combine_gap: float = 0
    write_gap: float = 0
    pack_gap: float = 0
    pack_traffic: float = 0
    memory_gap: float = 0
    up_gap: float = 0
    down_gap: float = 0


@dataclass(frozen=True)
class Job:
    """Float32 gradients in the order of their variables, and when every rank has them."""

    num_ranks: int
    ranks_per_host: int
    num_elements: Sequence[int]
    ready_s: Sequence[float]
    threshold_bytes: int = 32768
    algorithm: str = "auto"
    is_serial: bool = False
    is_card_loopback: bool = True
    is_every_host: bool = False
    is_lent: bool = False
    is_host_first: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came out, in seconds and bytes."""

    end_s: float
    card_bytes: float
    thread_busy_s: float
    card_busy_s: float
    memory_busy_s: float
    messages_per_rank: float
    is_hierarchical: bool
    buckets: Sequence[tuple[int, str]] = field(repr=False)  # bytes and algorithm


class _Costs(ctypes.Structure):
    _fields_ = tuple((each.name, ctypes.c_double) for each in fields(Costs))


class _Job(ctypes.Structure):
    _fields_ = (
        ("num_ranks", ctypes.c_int32),
        ("ranks_per_host", ctypes.c_int32),
        ("algorithm", ctypes.c_int32),
        ("is_serial", ctypes.c_int32),
        ("is_card_loopback", ctypes.c_int32),
        ("is_every_host", ctypes.c_int32),
        ("is_lent", ctypes.c_int32),
        ("is_host_first", ctypes.c_int32),
        ("threshold_bytes", ctypes.c_size_t),
        ("num_tensors", ctypes.c_size_t),
        ("num_elements", ctypes.POINTER(ctypes.c_size_t)),
        ("ready", ctypes.POINTER(ctypes.c_double)),
    )


class _Outcome(ctypes.Structure):
    _fields_ = (
        ("end", ctypes.c_double),
        ("card_bytes", ctypes.c_double),
        ("thread_busy", ctypes.c_double),
        ("card_busy", ctypes.c_double),
        ("memory_busy", ctypes.c_double),
        ("num_messages", ctypes.c_double),
        ("num_buckets", ctypes.c_size_t),
        ("is_hierarchical", ctypes.c_int32),
        ("bucket_bytes", ctypes.POINTER(ctypes.c_size_t)),
        ("bucket_algorithm", ctypes.POINTER(ctypes.c_int32)),
    )


def replay(costs: Costs, job: Job) -> Outcome:
    """Replay a step. Pure: the same arguments give the same times, to the last bit."""
    if len(job.num_elements) != len(job.ready_s):
        raise ValueError(
            f"Each gradient must have a time at which it is ready. Received: "
            f"{len(job.num_elements)} gradients and {len(job.ready_s)} times."
        )
    if job.num_ranks % job.ranks_per_host:
        raise ValueError(
            f"All hosts must have equally many ranks. Received: num_ranks={job.num_ranks}, "
            f"ranks_per_host={job.ranks_per_host}."
        )
    count = len(job.num_elements)
    sizes = (ctypes.c_size_t * count)(*job.num_elements)
    times = (ctypes.c_double * count)(*job.ready_s)
    bucket_bytes = (ctypes.c_size_t * count)()
    bucket_algorithm = (ctypes.c_int32 * count)()
    given = _Job(
        job.num_ranks,
        job.ranks_per_host,
        NUMBERS[job.algorithm],
        job.is_serial,
        job.is_card_loopback,
        job.is_every_host,
        job.is_lent,
        job.is_host_first,
        job.threshold_bytes,
        count,
        sizes,
        times,
    )
    found = _Outcome(bucket_bytes=bucket_bytes, bucket_algorithm=bucket_algorithm)
    prices = _Costs(*(getattr(costs, each.name) for each in fields(Costs)))
    library.load().replay(ctypes.byref(prices), ctypes.byref(given), ctypes.byref(found))
    used = range(found.num_buckets)
    return Outcome(
        found.end,
        found.card_bytes,
        found.thread_busy,
        found.card_busy,
        found.memory_busy,
        found.num_messages,
        bool(found.is_hierarchical),
        [(bucket_bytes[i], NAMES[bucket_algorithm[i]]) for i in used],
    )
