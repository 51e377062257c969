"""Time of an allreduce between the ranks of a job; see README.md for the columns."""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tnt_comm

KIB = 1024
NUM_WARM_UP = 5


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the allreduce between ranks.")
    parser.add_argument("--largest", type=int, default=16 * KIB, metavar="KIB")
    parser.add_argument("--seconds", type=float, default=0.5, help="time for each row, about")
    parser.add_argument("--json", type=Path, metavar="FILE", help="add one line per row to FILE")
    return parser.parse_args()


def sample(num_elements: int, rank: int) -> np.ndarray:
    """Small integers that differ by rank and position: their float32 sums are exact."""
    return ((np.arange(num_elements) % 97) * (rank + 1)).astype(np.float32)


def check(result: np.ndarray, size: int) -> None:
    """Compare with the formula: the factors 1 to size add up to size * (size + 1) / 2."""
    expected = sample(len(result), rank=size * (size + 1) // 2 - 1)
    np.testing.assert_array_equal(result, expected)


def time_of(operation: Callable[[], object], seconds: float) -> np.ndarray:
    """Times of one call in seconds, the slowest rank's of each repetition. Collective."""
    for _ in range(NUM_WARM_UP):
        operation()
    begin = time.perf_counter()
    operation()
    repetitions = seconds / max(time.perf_counter() - begin, 1e-6)
    # Ranks must agree on the number, so the fastest one's opinion counts.
    wanted = tnt_comm.allreduce(np.array([repetitions]), op="max")[0]
    times = np.zeros(int(np.clip(wanted, 10, 2000)))
    for index in range(len(times)):
        tnt_comm.barrier()
        begin = time.perf_counter()
        operation()
        times[index] = time.perf_counter() - begin
    return tnt_comm.allreduce(times, op="max")


def row(name: str, num_bytes: int, times: np.ndarray, memcpy_s: float) -> dict[str, object]:
    """One line of the report; bandwidths in GB/s, times in microseconds."""
    size = tnt_comm.get_size()
    lower, median, upper = np.percentile(times, [25, 50, 75])
    algbw = num_bytes / median / 1e9
    return {
        "operation": name,
        "bytes": num_bytes,
        "median_us": round(median * 1e6, 1),
        "spread_us": round((upper - lower) * 1e6, 1),
        "algbw_gbs": round(algbw, 2),
        "busbw_gbs": round(algbw * 2 * (size - 1) / size, 2),
        "memcpy_gbs": round(num_bytes / memcpy_s / 1e9, 2),
        "ranks": size,
        "host": platform.node(),
    }


def measure(num_bytes: int, seconds: float) -> list[dict[str, object]]:
    """Rows of one array size: the plain allreduce and the one through a bucket. Collective."""
    size, num_elements = tnt_comm.get_size(), num_bytes // 4
    data = sample(num_elements, tnt_comm.get_rank())
    result = np.empty_like(data)

    plan = tnt_comm.FusionPlan([tnt_comm.TensorSpec("gradient", "float32", num_elements)], 0)
    reducer = tnt_comm.GradientReducer(plan, name=f"benchmark {num_bytes}")

    def allreduce() -> None:
        tnt_comm.allreduce(data, out=result)

    def reduce_bucket() -> None:
        reducer.start(0, data)
        reducer.finish(0, out=result)

    memcpy_s = float(np.median(time_of(lambda: np.copyto(result, data), seconds / 4)))
    rows = []
    for name, operation in (("allreduce", allreduce), ("reducer", reduce_bucket)):
        result.fill(np.nan)
        operation()
        check(result, size)
        rows.append(row(name, num_bytes, time_of(operation, seconds), memcpy_s))
    reducer.close()
    return rows


def main() -> None:
    arguments = parse_arguments()
    is_first = tnt_comm.get_rank() == 0
    columns = ["operation", "bytes", "median_us", "spread_us", "algbw_gbs", "busbw_gbs"]
    columns.append("memcpy_gbs")
    if is_first:
        print(f"{tnt_comm.get_size()} ranks on {platform.node()}, numpy {np.__version__}")
        print(" ".join(f"{column:>10}" for column in columns), flush=True)
    num_bytes = KIB
    while num_bytes <= arguments.largest * KIB:
        for line in measure(num_bytes, arguments.seconds):
            if is_first:
                print(" ".join(f"{line[column]:>10}" for column in columns), flush=True)
                if arguments.json:
                    with arguments.json.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
        num_bytes *= 4


if __name__ == "__main__":
    main()
