"""What becomes of the other ranks if one is killed within a sum of tensors on the GPU?

Run by the launcher as `-m benchmarks.gpu.kill FOLDER OPTIONS MOMENT`, all ranks on one GPU.
The last rank kills itself in the second step: when it has started half of the bucket's tensors
(`half`), at once after all of them (`all`), while the GPU packs, copies or sums, or a little later
(`later`). The others sum until they get an error, and write what it says.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

import tnt_comm
from benchmarks.gpu.driver import DriverError, Gpu
from benchmarks.gpu.rank import Tensors, plan_of, reducer_on_gpu
from benchmarks.gpu.results import Options, read_arguments, write_result

LATER_S = 0.002
NUM_TENSORS = 8
MOST_STEPS = 1000


def start(reducer: tnt_comm.GradientReducer, tensors: Tensors, number: int) -> None:
    """Start so many tensors."""
    for i in range(number):
        tensors.start(reducer, i, 1.0, tensors.stream.handle)


def step(reducer: tnt_comm.GradientReducer, tensors: Tensors) -> None:
    """Sum all tensors once."""
    start(reducer, tensors, NUM_TENSORS)
    for i in range(NUM_TENSORS):
        tensors.finish(reducer, i, tensors.stream.handle)
    tensors.stream.wait()


def die(reducer: tnt_comm.GradientReducer, tensors: Tensors, moment: str) -> None:
    """Kill this process within a step, as `kill -9` would."""
    start(reducer, tensors, NUM_TENSORS // 2 if moment == "half" else NUM_TENSORS)
    if moment == "later":
        time.sleep(LATER_S)
    os.kill(os.getpid(), signal.SIGKILL)


def survive(reducer: tnt_comm.GradientReducer, tensors: Tensors, folder: Path) -> None:
    """Sum until a rank is lost; write what the error says, and when it came."""
    try:
        for _ in range(MOST_STEPS):
            step(reducer, tensors)
    except (tnt_comm.CommError, DriverError) as error:
        result = {
            "at_s": time.monotonic(),
            "kind": type(error).__name__,
            "cause_rank": getattr(error, "cause_rank", None),
            "error": str(error),
        }
        write_result(folder, tnt_comm.get_rank(), result)
        raise


def run(folder: Path, options: Options, moment: str) -> None:
    """One step of all ranks; the next is the last of one of them."""
    gpu = Gpu()
    size = options.kill_bytes // NUM_TENSORS // np.dtype(np.float32).itemsize
    arrays = [np.full(size, i, np.float32) for i in range(NUM_TENSORS)]
    plan = plan_of("float32", [size] * NUM_TENSORS, threshold_bytes=2 * options.kill_bytes)
    reducer = reducer_on_gpu(plan)
    tensors = Tensors(gpu, arrays)
    step(reducer, tensors)
    if tnt_comm.get_rank() == tnt_comm.get_size() - 1:
        # Before its last step, since it has no time behind it. All ranks have one clock.
        write_result(folder, tnt_comm.get_rank(), {"at_s": time.monotonic()})
        die(reducer, tensors, moment)
    survive(reducer, tensors, folder)


def main() -> None:
    arguments = read_arguments()
    (moment,) = arguments.others
    tnt_comm.init()
    run(arguments.folder, arguments.options, moment)


if __name__ == "__main__":
    main()
