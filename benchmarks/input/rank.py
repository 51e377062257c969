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
        CPU seconds, steps, and the MiB of memory that reading takes at most.
    """
    before_mib = peak_mib()
    dataset = WAYS[way](make_pipeline(folder, batch_size), size)
    for _ in dataset.take(2):
        pass
    begin, num_steps = time.process_time(), 0
    for _ in dataset:
        num_steps += 1
    cpu_s = time.process_time() - begin
    return {"cpu_s": cpu_s, "steps": num_steps, "input_mib": peak_mib() - before_mib}


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
