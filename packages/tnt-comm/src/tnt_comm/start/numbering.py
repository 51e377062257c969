"""Ranks for processes of several hosts: those of a host follow each other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple


class RankPlace(NamedTuple):
    """Where a rank stands in its job; all numbers start at 0."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node_rank: int
    num_nodes: int


def number_ranks(hosts: Mapping[int, str]) -> dict[int, RankPlace]:
    """Return the place of each process, by the number that its starter gave it. Pure.

    Hosts follow each other as their first processes do, so that process 0 is rank 0.
    """
    of_host: dict[str, list[int]] = {}
    for number in sorted(hosts):
        of_host.setdefault(hosts[number], []).append(number)
    places: dict[int, RankPlace] = {}
    for node_rank, numbers in enumerate(of_host.values()):
        for local_rank, number in enumerate(numbers):
            places[number] = RankPlace(
                rank=len(places),
                size=len(hosts),
                local_rank=local_rank,
                local_size=len(numbers),
                node_rank=node_rank,
                num_nodes=len(of_host),
            )
    return places


def this_host() -> str:
    """Return what is the same for processes that share a kernel and its shared memory. Local."""
    # Containers and namespaces of a machine may have a memory or a name of their own.
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return f"{os.uname().nodename} {boot} {os.stat('/dev/shm').st_dev}"
