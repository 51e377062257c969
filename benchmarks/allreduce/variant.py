"""One way to form the sums of a workload on one rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Call = Callable[[], object]


@dataclass
class Variant:
    """Arrays and the call that sums them."""

    # what this rank contributes, in workload order; filled by the caller
    inputs: Sequence[np.ndarray]
    run: Call  # sums once over all ranks
    # in workload order; the inputs, which then sum sums, if it works in place
    results: Callable[[], Sequence[np.ndarray]]
    close: Callable[[], None] = lambda: None  # releases what garbage collection does not


Make = Callable[[Sequence[int]], Variant]


@dataclass(frozen=True)
class Library:
    """One library on one rank."""

    rank: int
    size: int
    versions: dict[str, str]  # of what is measured, by name
    barrier: Call
    variants: dict[str, Make]  # by name, make the variant for these numbers of elements; collective


def private_arrays(num_elements: Sequence[int]) -> list[np.ndarray]:
    """Arrays such as a framework has them: each its own allocation, written once."""
    return [np.zeros(number, np.float32) for number in num_elements]


def buckets_of(num_elements: Sequence[int], bucket_bytes: int) -> list[list[int]]:
    """Fuse neighbours until a bucket holds `bucket_bytes`; return indices for each. Pure."""
    buckets: list[list[int]] = [[]]
    filled = 0
    for index, number in enumerate(num_elements):
        if filled >= bucket_bytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(index)
        filled += 4 * number
    return buckets


def bucketed(
    num_elements: Sequence[int],
    bucket_bytes: int,
    reduce: Callable[[np.ndarray], Call],
) -> Variant:
    """Copy arrays into buckets, sum those in place, copy back: what data-parallel trainers do."""
    arrays = private_arrays(num_elements)
    buckets = []
    for indices in buckets_of(num_elements, bucket_bytes):
        memory = np.zeros(sum(num_elements[i] for i in indices), np.float32)
        ends = np.cumsum([num_elements[i] for i in indices])[:-1]
        pairs = list(zip(np.split(memory, ends), (arrays[i] for i in indices), strict=True))
        buckets.append((pairs, reduce(memory)))

    def run() -> None:
        for pairs, sum_up in buckets:
            for part, array in pairs:
                np.copyto(part, array)
            sum_up()
            for part, array in pairs:
                np.copyto(array, part)

    return Variant(arrays, run, lambda: arrays)
