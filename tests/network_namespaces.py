"""Hosts of a cluster on one machine: network namespaces that a virtual cable connects."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from tnt_comm.testing import Host

NOT_PERMITTED = "network namespaces are not permitted here: they need root and iproute2"


def _run(command: str) -> str:
    finished = subprocess.run(
        command.split(), check=True, capture_output=True, text=True, timeout=30
    )
    return finished.stdout


def _wait_until_up(name: str, device: str) -> None:
    """The kernel may take a second to say so, and UCX uses no device before."""
    end = time.monotonic() + 10
    while "state UP" not in _run(f"ip -n {name} link show {device}"):
        assert time.monotonic() < end, f"{device} of {name} is not up"
        time.sleep(0.02)


_made = itertools.count()


def _names(count: int) -> list[str]:
    """Names that neither another process nor another cluster of this one has."""
    cluster = next(_made)
    return [f"tnt{os.getpid()}c{cluster}n{i}" for i in range(count)]


@contextmanager
def namespaces(count: int) -> Iterator[list[str]]:
    """Make namespaces with loopback alone, which are removed at the end of the block."""
    names = _names(count)
    try:
        for name in names:
            _run(f"ip netns add {name}")
            _run(f"ip -n {name} link set lo up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, timeout=30)


def are_permitted() -> bool:
    """Whether namespaces can be made here; makes one to find out."""
    name = f"tnt{os.getpid()}try"
    try:
        _run(f"ip netns add {name}")
        _run(f"ip netns delete {name}")
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextmanager
def cluster(ranks_of_hosts: Sequence[int]) -> Iterator[tuple[Host, ...]]:
    """Hosts with these numbers of ranks, on one network of their own, until the end of the block.

    Skips the test where namespaces are not permitted.

    Their files, shared memory among them, are those of this machine.
    """
    if not are_permitted():
        pytest.skip(NOT_PERMITTED)
    hosts = []
    with namespaces(len(ranks_of_hosts)) as names:
        # A bridge in the first namespace; every host has a cable to it.
        for i, name in enumerate(names):
            if i == 0:
                _run(f"ip -n {name} link add hub type bridge")
                _run(f"ip -n {name} addr add 10.201.7.1/24 dev hub")
                _run(f"ip -n {name} link set hub up")
                continue
            _run(f"ip -n {names[0]} link add plug{i} type veth peer name eth0 netns {name}")
            _run(f"ip -n {names[0]} link set plug{i} master hub up")
            _run(f"ip -n {name} addr add 10.201.7.{i + 1}/24 dev eth0")
            _run(f"ip -n {name} link set eth0 up")
        for i, name in enumerate(names):
            _wait_until_up(name, "hub" if i == 0 else "eth0")
        for i, num_ranks in enumerate(ranks_of_hosts):
            prefix = ("ip", "netns", "exec", names[i])
            hosts.append(Host(num_ranks, f"10.201.7.{i + 1}", prefix))
        yield tuple(hosts)
