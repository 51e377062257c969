"""One rank of one library: does what the driver asks for, and waits without using a core."""

# Started by the library's launcher as `rank.py MODULE SOCKET`.

from __future__ import annotations

import importlib
import sys
import time

from benchmarks.allreduce import values
from benchmarks.allreduce.variant import Library
from benchmarks.allreduce.workload import make_workload
from benchmarks.process_set import serve

# The check has used the caches for other things, and threads find their cores within some calls.
WARM_UP_CALLS = 3


def measure(
    library: Library, variant: str, workload: str, block: int, num_blocks: int
) -> list[float]:
    """Check the sums of one run, then time `num_blocks` blocks of `block` runs. Collective."""
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


def main() -> None:
    module, path = sys.argv[1:]
    library = importlib.import_module(module).open_library()
    hello = {"versions": library.versions, "variants": list(library.variants)}
    serve(path, hello, lambda request: {"times": measure(library, **request)})


if __name__ == "__main__":
    main()
