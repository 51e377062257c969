"""One rank: trains a network with lanes or without, as the environment says, and times steps."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt
import tnt_comm
from benchmarks.keras_models import MODELS, Sizes, make_samples
from benchmarks.training_steps import time_steps, versions

WARM_UP = 3


def main() -> None:
    path, name, *numbers = sys.argv[1:]
    pixels, batch_size, num_steps = map(int, numbers)
    sizes = Sizes(pixels=pixels, layers=4, width=256, tokens=64)
    keras.utils.set_random_seed(1)
    model = tnt.Model(MODELS[name](keras, sizes))
    samples = make_samples(name, sizes, batch_size)
    data = tf.data.Dataset.from_tensors(samples).repeat()
    begin = time.process_time()
    time_steps(model, data.take(1))
    build_s = time.process_time() - begin
    time_steps(model, data.take(WARM_UP))
    steps = time_steps(model, data.take(num_steps))
    of_ranks = tnt_comm.allgather(np.array(steps))
    if tnt_comm.get_rank() == 0:
        result = {
            "versions": versions(),
            "steps": np.median(np.stack(of_ranks), axis=0).tolist(),
            "build_s": build_s,
            "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        Path(path).write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
