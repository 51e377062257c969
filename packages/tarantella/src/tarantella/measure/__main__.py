"""A rank of the job that `tarantella measure` starts; any launcher can start it."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np

import tnt_comm
from tarantella.measure import probes
from tarantella.measure.machine_file import Measured, network_of, text_of, write_whole

_T = TypeVar("_T")


def main() -> None:
    """Measure on all ranks; rank 0 writes the file, or prints it."""
    parser = argparse.ArgumentParser(prog="tarantella measure", description=__doc__)
    parser.add_argument("--output", metavar="FILE", help="write there instead of printing")
    arguments = parser.parse_args()
    if tnt_comm.get_size() == 1:
        sys.exit("tarantella measure needs 2 ranks or more: give -n, or hosts. Received: 1 rank.")
    if tnt_comm.get_rank() == 0 and arguments.output is not None:
        _require_file(arguments.output)
    measured = measure()
    if tnt_comm.get_rank() != 0:
        return
    text = text_of(measured)
    if measured.network is None:
        sys.stderr.write("tarantella measure: no network was measured, since there is one host.\n")
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        write_whole(arguments.output, text)


def _require_file(path: str) -> None:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        problem = f"the folder of --output does not exist: {folder!r}. Create it, or"
    elif not path or os.path.isdir(path):
        problem = f"--output must be a file, not a folder. Received: {path!r}. Please"
    else:
        return
    sys.exit(f"tarantella measure: {problem} name another file.")


def measure() -> Measured:
    """Take each probe where it belongs. Collective.

    The network is that between the first ranks of the first two hosts; what a host costs is that of
    the host of rank 0, while the others wait.
    """
    all_ranks = tnt_comm.Group()
    hosts = _hosts(all_ranks)
    own = next(ranks for ranks in hosts if tnt_comm.get_rank() in ranks)
    network = None
    if len(hosts) > 1:
        network = _of_first(all_ranks, [hosts[0][0], hosts[1][0]], _network)
    host = _of_first(all_ranks, hosts[0], _host)
    return Measured(
        hosts=len(hosts),
        ranks_per_host=len(own),
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        has_gpus=os.environ.get("TNT_GPUS_PER_NODE", "0") != "0",
        network=network,
        host=host or {},
        jitter=probes.jitter(all_ranks),
    )


def _hosts(group: tnt_comm.Group) -> list[list[int]]:
    """Return the ranks of each host, which are consecutive. Collective."""
    places = group.allgather(np.array([tnt_comm.get_local_rank()]))
    firsts = [rank for rank, place in enumerate(places) if place.item() == 0]
    ends = [*firsts[1:], len(places)]
    return [list(range(first, end)) for first, end in zip(firsts, ends, strict=True)]


def _of_first(
    all_ranks: tnt_comm.Group, members: list[int], probe: Callable[[tnt_comm.Group], _T]
) -> _T | None:
    """Let these ranks measure while the others wait; the members get what they have measured."""
    found = None
    if tnt_comm.get_rank() in members:
        found = probe(tnt_comm.Group(members))
    all_ranks.barrier(label="next probe")
    return found


def _network(pair: tnt_comm.Group) -> dict[str, float]:
    return network_of(
        probes.latency_s(pair),
        probes.bytes_per_s(pair),
        probes.message_s(pair),
        probes.thread_s_per_byte(pair),
    )


def _host(group: tnt_comm.Group) -> dict[str, float]:
    copy = probes.copy_bytes_per_s() if group.rank == 0 else 0.0
    group.barrier()
    return {
        # Of two ranks; a single one has nobody to send to.
        "local_latency_s": probes.latency_s(group) if group.size > 1 else 0.0,
        "local_bytes_per_s": probes.bytes_per_s(group) if group.size > 1 else copy,
        "memory_bytes_per_s": probes.memory_bytes_per_s(group),
        "combine_bytes_per_s": probes.combine_bytes_per_s(),
        "copy_bytes_per_s": copy,
    }


if __name__ == "__main__":
    main()
