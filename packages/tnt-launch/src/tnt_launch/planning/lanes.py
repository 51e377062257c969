"""Lanes: the parts of every batch that all ranks share, and what they need of a launch. Pure.

Each rank has as many neighbouring ones. What is computed has the same bits on all numbers of ranks
on which the lanes can be, as long as an operation has the same number of threads on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tnt_launch.errors import LaunchError
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import LANES, NUM_THREADS, SUM_TREE, WIRE_DTYPE


class LanesOfRank(NamedTuple):
    """What a rank has of the lanes."""

    num_lanes: int
    num_cores: int  # that compute them

    def num_operations(self, threads: int) -> int:
        """Return how many operations of so many threads have cores at a time."""
        return min(self.num_lanes, self.num_cores // threads)


def valid_sizes(lanes: int) -> list[int]:
    """Return the numbers of ranks on which lanes can be, ascending. Pure.

    The lanes of a rank are a branch of the tree in which sums are formed, which combines as many
    neighbours as the smallest prime factor first: of 6 lanes a rank can have 1, 2 or 6, not 3.
    """
    sizes, rest, factor = [lanes], lanes, 2
    while rest > 1:
        while rest % factor:
            factor = factor + 1 if factor * factor < rest else rest
        rest //= factor
        sizes.append(rest)
    return sizes[::-1]


def check_lanes(settings: Settings, size: int) -> None:
    """Refuse lanes that cannot be on `size` ranks, and settings that lanes exclude. Pure."""
    lanes = settings.get(LANES)
    if lanes is None:
        return
    if size not in valid_sizes(lanes):
        raise LaunchError(
            f"{lanes} lanes can be on {_valid(lanes)} ranks, not on {size}: a rank has "
            "neighbouring lanes that are summed before all others. Start one of these numbers of "
            "ranks, or give another number of lanes."
        )
    if settings.get(SUM_TREE) is not None:
        raise LaunchError(
            f"the order of sums is that of {lanes} lanes, so TNT_SUM_TREE must not be set. Unset "
            "it."
        )
    wire_dtype = settings.get(WIRE_DTYPE) or WIRE_DTYPE.default
    if wire_dtype != WIRE_DTYPE.default:
        raise LaunchError(
            "with lanes gradients travel as they are, since how many are rounded would depend on "
            f"the number of ranks. Received: {lanes} lanes and wire dtype {wire_dtype}. Remove "
            "--wire-dtype, or the lanes."
        )


def threads_of_lane(lanes: int, hosts: Sequence[HostFacts]) -> int:
    """Return the threads of an operation, equal for all numbers of ranks on these hosts. Pure."""
    return max(1, min(host.num_cores for host in hosts) // lanes)


def warning_of_unequal_hosts(settings: Settings, hosts: Sequence[HostFacts]) -> str:
    """Tell that some of the hosts alone would give lanes other threads; empty if not. Pure."""
    lanes = settings.get(LANES)
    if lanes is None or settings.get(NUM_THREADS) is not None:
        return ""
    of_each = [threads_of_lane(lanes, [host]) for host in hosts]
    if min(of_each) == max(of_each):
        return ""
    cores = sorted(host.num_cores for host in hosts)
    return (
        f"the hosts have between {cores[0]} and {cores[-1]} cores, and lanes get as many threads "
        f"as the smallest has for them, {min(of_each)}: a job on some of these hosts may have "
        f"others, and other bits. To have the same, set TNT_NUM_THREADS={min(of_each)} for each. "
        "[lanes-unequal-hosts]"
    )


def hosts_that_fit(
    hosts: Sequence[HostSlots], per_host: Sequence[int], lanes: int, min_ranks: int
) -> tuple[HostSlots, ...]:
    """Return hosts with the most ranks that lanes can be on, of those that they can have. Pure.

    As many hosts as possible have equally many; where that is not possible the first are filled.
    Fewer than `min_ranks` are a LaunchError.
    """
    most = sum(per_host)
    size = max(size for size in valid_sizes(lanes) if size <= most)
    if size < min_ranks:
        raise LaunchError(
            f"{lanes} lanes can be on {_valid(lanes)} ranks: of the {most} that the hosts still "
            f"have they can use {size}, fewer than --min-ranks {min_ranks}."
        )
    counts = _evenly(size, per_host) or _filled(size, per_host)
    pairs = zip(hosts, counts, strict=True)
    return tuple(replace(host, slots=count) for host, count in pairs if count)


def _evenly(size: int, per_host: Sequence[int]) -> list[int]:
    for count in range(len(per_host), 0, -1):
        share = size // count
        able = [number for number, most in enumerate(per_host) if most >= share]
        if size % count == 0 and len(able) >= count:
            return [share if number in able[:count] else 0 for number in range(len(per_host))]
    return []


def _filled(size: int, per_host: Sequence[int]) -> list[int]:
    counts: list[int] = []
    for most in per_host:
        counts.append(min(most, size - sum(counts)))
    return counts


def _valid(lanes: int) -> str:
    *first, last = map(str, valid_sizes(lanes))
    return f"{', '.join(first)} or {last}" if first else last
