"""One rank of one library: does what the driver asks for, and waits without using a core.

Started by the library's launcher as `rank.py MODULE SOCKET`.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import sys
import time
import traceback
from typing import Any

from benchmarks.allreduce import values
from benchmarks.allreduce.variant import Library
from benchmarks.allreduce.workload import make_workload

# The check has used the caches for other things, and threads find their cores within some calls.
WARM_UP_CALLS = 3


def measure(
    library: Library, variant: str, workload: str, block: int, num_blocks: int
) -> list[float]:
    """Check the sums of one run, then time `num_blocks` blocks of `block` runs. Collective.

    Returns:
        Seconds of one run: the mean of each block.
    """
    made = library.variants[variant](make_workload(workload).num_elements)
    values.fill(made.inputs, library.rank)
    library.barrier()
    made.run()
    values.check(made.results(), library.size)
    library.barrier()  # the next run may change what another rank still checks
    run, times = made.run, []
    for _ in range(WARM_UP_CALLS):
        run()
    for _ in range(num_blocks):
        library.barrier()
        begin = time.perf_counter()
        for _ in range(block):
            run()
        times.append((time.perf_counter() - begin) / block)
    library.barrier()
    made.close()
    return times


def serve(library: Library, connection: socket.socket) -> None:
    """Answer requests until the driver closes the connection: one line of JSON each."""
    lines = connection.makefile("rw", encoding="utf-8")

    def send(message: dict[str, Any]) -> None:
        lines.write(json.dumps(message) + "\n")
        lines.flush()

    variants = list(library.variants)
    send({"pid": os.getpid(), "versions": library.versions, "variants": variants})
    for line in lines:
        try:
            send({"times": measure(library, **json.loads(line))})
        except Exception:
            send({"error": traceback.format_exc()})


def main() -> None:
    module, path = sys.argv[1:]
    library = importlib.import_module(module).open_library()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        serve(library, connection)


if __name__ == "__main__":
    main()
