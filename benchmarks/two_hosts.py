"""Two hosts on this one: network namespaces, joined by a link."""

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

ADDRESSES = ("10.77.0.1", "10.77.0.2")
DEVICE = "veth0"
UNLIMITED = "unlimited"
UP_S = 10
PORT = 29500  # of rank 0; nobody else is in its namespace
# The bucket of tokens holds several of the 64 KiB packets that TCP hands to a network card. If it
# did not, the kernel would cut each of them for the limiter, which takes all of two cores at
# 1 Gbit/s; a card does that by itself. Packets wait 50 ms at most, then they are lost, which TCP
# takes as the sign to slow down.
LIMIT = ("burst", "2mbit", "latency", "50ms")


class LinkUnavailable(RuntimeError):
    """This process may not, or cannot, make namespaces here."""


@dataclass(frozen=True)
class Hosts:
    """The two hosts, and what belongs to them."""

    names: tuple[str, str]  # of the namespaces; the addresses in them are `ADDRESSES`
    folder: Path  # for files of the job, which both see

    def prefix(self, host: int) -> tuple[str, ...]:
        """Command before a program that is to run on this host."""
        return ("ip", "netns", "exec", self.names[host])

    def rank_variables(self, rank: int, job_id: str) -> dict[str, str]:
        """What a launcher of Tarantella would set for the one rank of a host, for any engine."""
        machine_file = self.folder / "machines"
        machine_file.write_text("".join(f"{address}\n" for address in ADDRESSES), encoding="ascii")
        return {
            **rank_variables(rank, len(self.names), job_id),
            "TNT_LOCAL_RANK": "0",
            "TNT_LOCAL_SIZE": "1",
            "TNT_NODE_RANK": str(rank),
            "TNT_NUM_NODES": str(len(self.names)),
            "TNT_RENDEZVOUS": f"{ADDRESSES[0]}:{PORT}",
            "TNT_JOB_SECRET": f"secret of job {job_id}",
            "GASPI_RANK": str(rank),
            "GASPI_NRANKS": str(len(self.names)),
            "GASPI_SOCKET": "0",
            "GASPI_MFILE": str(machine_file),
        }


@contextlib.contextmanager
def two_hosts(rate: str, folder: Path) -> Iterator[Hosts]:
    """Make two namespaces with a link between them; they are removed at the end."""
    # The rate of each direction is as `tc` writes it, `1gbit`, or `UNLIMITED`.
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise LinkUnavailable(f"`{tool}` is not installed (Debian: apt install iproute2)")
    names = (f"tnt-bench-{os.getpid()}-0", f"tnt-bench-{os.getpid()}-1")
    with contextlib.ExitStack() as stack:
        for name in names:
            _run("ip", "netns", "add", name)
            stack.callback(_run, "ip", "netns", "delete", name)
        peer = ("peer", "name", DEVICE, "netns", names[1])
        _run("ip", "link", "add", DEVICE, "netns", names[0], "type", "veth", *peer)
        for name, address in zip(names, ADDRESSES, strict=True):
            _run("ip", "-n", name, "address", "add", f"{address}/24", "dev", DEVICE)
            for device in ("lo", DEVICE):
                _run("ip", "-n", name, "link", "set", device, "up")
            if rate != UNLIMITED:
                limiter = ("root", "tbf", "rate", rate, *LIMIT)
                _run("tc", "-n", name, "qdisc", "add", "dev", DEVICE, *limiter)
        for name in names:
            _wait_until_up(name)
        yield Hosts(names, folder)


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
