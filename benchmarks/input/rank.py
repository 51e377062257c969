"""One process that reads its part of the images once, and says what that took."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

from benchmarks.input.ways import WAYS, make_pipeline


def measure(folder: Path, batch_size: int, way: str, size: int) -> dict[str, Any]:
    """Read all images of one rank, after two steps that are not counted.

    Returns:
        CPU seconds, steps, and MiB of memory at most.
    """
    dataset = WAYS[way](make_pipeline(folder, batch_size), size)
    for _ in dataset.take(2):
        pass
    begin, num_steps = time.process_time(), 0
    for _ in dataset:
        num_steps += 1
    cpu_s = time.process_time() - begin
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"cpu_s": cpu_s, "steps": num_steps, "peak_mib": peak_mib}


def main() -> None:
    path, folder, batch_size, way, size = sys.argv[1:]
    result = measure(Path(folder), int(batch_size), way, int(size))
    result["versions"] = {"tensorflow": tf.__version__}
    Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
