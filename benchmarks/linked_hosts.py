"""Several hosts on this one: network namespaces with cards of one rate, on one switch."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.jobs import rank_variables

DEVICE = "veth0"
UNLIMITED = "unlimited"
UP_S = 10
PORT = 29500  # of rank 0; nobody else is in its namespace
MOST_HOSTS = 250
# The bucket of tokens holds several of the 64 KiB packets that TCP hands to a network card. If it
# did not, the kernel would cut each of them for the limiter, which takes all of two cores at
# 1 Gbit/s; a card does that by itself. Packets wait 50 ms at most, then they are lost, which TCP
# takes as the sign to slow down.
LIMIT = ("burst", "2mbit", "latency", "50ms")


class LinkUnavailable(RuntimeError):
    """This process may not, or cannot, make namespaces here."""


def address_of(host: int) -> str:
    """In the network of the hosts. Pure."""
    return f"10.77.0.{host + 1}"


@dataclass(frozen=True)
class Hosts:
    """The hosts, and what belongs to them."""

    names: tuple[str, ...]  # of the namespaces
    folder: Path  # for files of the job, which all see

    def prefix(self, host: int) -> tuple[str, ...]:
        """Command before a program that is to run on this host."""
        return ("ip", "netns", "exec", self.names[host])

    def rank_variables(self, rank: int, job_id: str) -> dict[str, str]:
        """What a launcher of Tarantella would set for the one rank of a host, for any engine."""
        size = len(self.names)
        machine_file = self.folder / "machines"
        addresses = [address_of(host) for host in range(size)]
        machine_file.write_text("".join(f"{each}\n" for each in addresses), encoding="ascii")
        return {
            **rank_variables(rank, size, job_id),
            "TNT_LOCAL_RANK": "0",
            "TNT_LOCAL_SIZE": "1",
            "TNT_NODE_RANK": str(rank),
            "TNT_NUM_NODES": str(size),
            "TNT_RENDEZVOUS": f"{addresses[0]}:{PORT}",
            "TNT_JOB_SECRET": f"secret of job {job_id}",
            "GASPI_RANK": str(rank),
            "GASPI_NRANKS": str(size),
            "GASPI_SOCKET": "0",
            "GASPI_MFILE": str(machine_file),
        }


@contextlib.contextmanager
def linked_hosts(count: int, rate: str, folder: Path) -> Iterator[Hosts]:
    """Make namespaces, which are removed at the end; two have a cable, more a switch between them.

    `rate`: of each card in each direction, as `tc` writes it, `1gbit`, or `UNLIMITED`.
    """
    if not 2 <= count <= MOST_HOSTS:
        raise ValueError(f"`count` must be 2 to {MOST_HOSTS} hosts. Received: {count}.")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise LinkUnavailable(f"`{tool}` is not installed (Debian: apt install iproute2)")
    names = tuple(f"tnt-bench-{os.getpid()}-{host}" for host in range(count))
    with contextlib.ExitStack() as stack:
        for name in names:
            _make_namespace(stack, name)
        if count == 2:
            _plug((names[0], DEVICE), (names[1], DEVICE))
        else:
            _plug_into_switch(stack, names, rate)
        for host, name in enumerate(names):
            _run("ip", "-n", name, "address", "add", f"{address_of(host)}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                _run("ip", "-n", name, "link", "set", device, "up")
            _limit(name, DEVICE, rate)
        for name in names:
            _wait_until_up(name)
        yield Hosts(names, folder)


def _make_namespace(stack: contextlib.ExitStack, name: str) -> None:
    _run("ip", "netns", "add", name)
    stack.callback(_run, "ip", "netns", "delete", name)


def _plug(one: tuple[str, str], other: tuple[str, str]) -> None:
    peer = ("peer", "name", other[1], "netns", other[0])
    _run("ip", "link", "add", one[1], "netns", one[0], "type", "veth", *peer)


def _plug_into_switch(stack: contextlib.ExitStack, names: tuple[str, ...], rate: str) -> None:
    """The switch has a namespace of its own, and sends each host no faster than its card."""
    switch = f"tnt-bench-{os.getpid()}-switch"
    _make_namespace(stack, switch)
    _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
    _run("ip", "-n", switch, "link", "set", "switch", "up")
    for host, name in enumerate(names):
        port = f"port{host}"
        _plug((switch, port), (name, DEVICE))
        _run("ip", "-n", switch, "link", "set", port, "master", "switch", "up")
        _limit(switch, port, rate)


def _limit(name: str, device: str, rate: str) -> None:
    if rate != UNLIMITED:
        limiter = ("root", "tbf", "rate", rate, *LIMIT)
        _run("tc", "-n", name, "qdisc", "add", "dev", device, *limiter)


def _wait_until_up(name: str) -> None:
    """The kernel may take a second to say so, and UCX uses no device before."""
    end = time.monotonic() + UP_S
    while "state UP" not in _run("ip", "-n", name, "link", "show", DEVICE):
        if time.monotonic() > end:
            raise LinkUnavailable(f"the link is not up after {UP_S} s")
        time.sleep(0.05)


def _run(*command: str) -> str:
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode != 0:
        raise LinkUnavailable(
            f"`{' '.join(command)}` failed: {finished.stderr.strip()}. Network namespaces need "
            "root, and in a container the capabilities NET_ADMIN and SYS_ADMIN."
        )
    return finished.stdout
