"""One rank: calls a model, plain or distributed, and notes what each call costs.

    rank.py RESULT {plain,tnt} MODEL SAMPLES ROUNDS

A plain model has this rank's share of the samples, a distributed one all of them, of which this
rank takes its share.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import psutil

import tarantella as tnt
import tnt_comm
from benchmarks.first_step.models import MODELS, samples_of
from benchmarks.step_time import StepTime, between, now
from benchmarks.training_steps import versions

BATCH_SIZE = 16  # of a rank
_SECONDS = re.compile(r"partitioned in ([0-9.]+) s")


class PartitionTimes(logging.Handler):
    """Seconds that the log names for the partitioning of each graph."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what a line says."""
        self.seconds += [float(found) for found in _SECONDS.findall(record.getMessage())]


def timed(call: Callable[[], object], rounds: int) -> list[StepTime]:
    """Cost of each round, after one that is not counted; all ranks begin at once. Collective."""
    times = []
    for _ in range(rounds + 1):
        tnt_comm.barrier()
        begin = now()
        call()
        times += between([begin, now()])
    return times[1:]


def memory_mib() -> float:
    """Of this process, without what it shares with others."""
    return float(psutil.Process().memory_full_info().uss / 2**20)


def measure(kind: str, name: str, samples: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Train for an epoch, then make each call in turn. Collective."""
    keras.utils.set_random_seed(1)
    size = tnt_comm.get_size() if kind == "tnt" else 1
    plain = MODELS[name]()
    inputs, labels = samples_of(plain, samples * size)
    model, batch_size = plain, BATCH_SIZE * size
    partitions = PartitionTimes()
    logging.getLogger("tnt_keras").addHandler(partitions)
    if kind == "tnt":
        model = tnt.Model(plain)
        model.compile(plain.optimizer, plain.loss, metrics=["accuracy"], jit_compile=False)
    model.fit(inputs, labels, batch_size, 2, verbose=0, shuffle=False)
    path = folder / f"{kind}-{tnt_comm.get_rank() if kind == 'plain' else 0}.keras"
    calls: dict[str, Callable[[], object]] = {
        "evaluate": lambda: model.evaluate(inputs, labels, batch_size, verbose=0),
        "predict": lambda: model.predict(inputs, batch_size, verbose=0),
        "save": lambda: model.save(path),
    }
    times = {call: [tuple(each) for each in timed(do, rounds)] for call, do in calls.items()}
    return {"times": times, "memory_mib": memory_mib(), "partition_s": sum(partitions.seconds)}


def main() -> None:
    path, kind, name, samples, rounds = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        shared = tnt.broadcast_object(folder)
        found = measure(kind, name, int(samples), int(rounds), Path(shared))
        tnt_comm.barrier()
    ranks = tnt.allgather_object(found)
    if os.environ["TNT_RANK"] == "0":
        result = {"versions": versions(), "ranks": ranks}
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
