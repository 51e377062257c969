"""A rank of the job that measures the network: one on each host."""

from __future__ import annotations

from dataclasses import asdict

import tnt_comm
from tarantella.doctor.engine_library import loaded_library
from tarantella.doctor.tell import begin, tell
from tarantella.measure import probes

_MOST_HOSTS_FOR_ALL_PAIRS = 4


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
            group = tnt_comm.Group(sorted(pair))
            latency_s, bytes_per_s = probes.latency_s(group), probes.bytes_per_s(group)
            if rank == pair[0]:
                tell("link", pair=pair, latency_s=latency_s, bytes_per_s=bytes_per_s)
        tnt_comm.barrier(label="next pair")


if __name__ == "__main__":
    main()
