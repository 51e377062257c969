"""One process that reads its part of the images once, and says what that took."""

from __future__ import annotations

import itertools
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.input.ways import WAYS

FIRST_STEPS = 2


def measure(folder: Path, batch_size: int, way: str, size: int) -> dict[str, Any]:
    """Read all images of one rank in one pass, whose first steps are counted by themselves."""
    # CPU seconds of the first steps, with all that a pass has to set up, and of the others; the
    # number of these; and the MiB of memory that reading takes at most.
    before_mib = peak_mib()
    dataset = WAYS[way](folder, batch_size, size)
    created = time.process_time()
    steps = iter(dataset)
    for _ in itertools.islice(steps, FIRST_STEPS):
        pass
    begin = time.process_time()
    num_steps = sum(1 for _ in steps)
    return {
        "start_s": begin - created,
        "cpu_s": time.process_time() - begin,
        "steps": num_steps,
        "input_mib": peak_mib() - before_mib,
    }


def peak_mib() -> float:
    """MiB of memory that this process has had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    path, folder, batch_size, way, size = sys.argv[1:]
    result = measure(Path(folder), int(batch_size), way, int(size))
    result["versions"] = {"tensorflow": tf.__version__}
    Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
