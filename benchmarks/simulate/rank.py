"""One rank: `rank.py RESULT MODEL SCALE STEP_S STEPS THRESHOLD`; sleeps where a model computes."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np

import tnt_comm
from benchmarks.linked_hosts import DEVICE
from benchmarks.simulate.layers import gradients_of
from benchmarks.simulate.measured import scaled_sizes


def bytes_sent() -> int:
    """By the card of this host, as the kernel counts them."""
    return int(Path(f"/sys/class/net/{DEVICE}/statistics/tx_bytes").read_text(encoding="ascii"))


def main() -> None:
    path, model, scale, step_s, steps, threshold_bytes = sys.argv[1:]
    sizes = scaled_sizes(model, float(scale))
    ready_s = [float(step_s) * share for share in gradients_of(model).ready_share]
    order = sorted(range(len(sizes)), key=lambda i: (ready_s[i], -i))
    specs = [tnt_comm.TensorSpec(str(i), "float32", size) for i, size in enumerate(sizes)]
    reducer = tnt_comm.GradientReducer(tnt_comm.FusionPlan(specs, int(threshold_bytes)))
    arrays = [np.ones(size, np.float32) for size in sizes]
    exposed_s = []
    before = bytes_sent()
    for _ in range(int(steps)):
        tnt_comm.barrier()
        begin = time.perf_counter()
        for i in order:
            time.sleep(max(0.0, begin + ready_s[i] - time.perf_counter()))
            reducer.start(i, arrays[i])
        computed = time.perf_counter()
        for i in range(len(sizes)):
            reducer.finish(i, arrays[i])
        exposed_s.append(time.perf_counter() - computed)
        if any(array[0] != tnt_comm.get_size() for array in arrays):
            sys.exit("a sum is wrong")
        for array in arrays:
            array[:] = 1
    tnt_comm.barrier()
    result = {"exposed_s": exposed_s, "sent_bytes": (bytes_sent() - before) / int(steps)}
    if tnt_comm.get_rank() == 0:
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
