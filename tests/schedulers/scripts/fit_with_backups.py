"""Fit a model with backups; rank 0 prints the hosts of all ranks and a digest of the weights.

usage: fit_with_backups.py BACKUP [SECONDS_OF_A_STEP]
"""

import hashlib
import json
import os
import sys
import time

import keras
import numpy as np

import tarantella as tnt

folder, step_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0


class Slow(keras.callbacks.Callback):
    """Tell of each step, and take time for it."""

    def on_train_batch_end(self, batch, logs=None):
        if tnt.is_master_rank():
            print(f"batch {batch}", file=sys.stderr, flush=True)
        time.sleep(step_s)


keras.utils.set_random_seed(7)
layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(2)]
model = tnt.Model(keras.Sequential(layers))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rng = np.random.default_rng(3)
model.fit(
    rng.normal(size=(30, 6)).astype("float32"),
    rng.integers(0, 2, 30),
    batch_size=4,  # the last batch has two samples
    epochs=3,
    verbose=0,
    callbacks=[keras.callbacks.BackupAndRestore(folder), Slow()],
)
values = b"".join(np.asarray(each).tobytes() for each in model.variables)
hosts = tnt.allgather_object(os.uname().nodename)
if tnt.is_master_rank():
    print(json.dumps({"hosts": hosts, "weights": hashlib.sha256(values).hexdigest()}))
