"""A rank of the self-test of an engine: a sum among the ranks of one host, and what it costs."""

from __future__ import annotations

import os
from dataclasses import asdict

import numpy as np

import tnt_comm
from tarantella.doctor.engine_library import loaded_library
from tarantella.doctor.tell import tell

_NUM_ELEMENTS = 1 << 18


def main() -> None:
    """Sum, measure, and let the first rank tell."""
    engine = os.environ["TNT_TRANSPORT"]
    try:
        facts = _try_engine()
    except (tnt_comm.CommError, ValueError) as error:
        facts = {"why": str(error)}
    if tnt_comm.get_rank() == 0:
        tell("engine", engine=engine, **facts)


def _try_engine() -> dict[str, object]:
    tnt_comm.init()
    size = tnt_comm.get_size()
    own = np.full(_NUM_ELEMENTS, tnt_comm.get_rank() + 1.0, np.float32)
    total = tnt_comm.allreduce(own)
    expected = size * (size + 1) / 2
    link = tnt_comm.measure_link()
    library = loaded_library()
    return {
        "size": size,
        "is_right": bool((total == expected).all()),
        "latency_s": link.latency_s,
        "bytes_per_s": link.bytes_per_s,
        "library": None if library is None else asdict(library),
    }


if __name__ == "__main__":
    main()
