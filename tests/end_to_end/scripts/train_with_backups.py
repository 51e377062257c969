"""Train a little with backups, and write how it ends; with "disturbed" ranks are killed and asked.

Arguments: the folder of the backup, and "disturbed" or "undisturbed".
"""

import hashlib
import os
import pathlib
import signal
import sys
import time

import keras
import numpy as np

import tarantella as tnt

FOLDER, MANNER = sys.argv[1:]
RESTARTS = int(os.environ["TNT_RESTART_COUNT"])


class Disturb(keras.callbacks.Callback):
    """The last rank wants a backup in step 2 and dies in step 4; later the job is asked to end."""

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        at = (RESTARTS, self.epoch, batch)
        if tnt.get_rank() == tnt.get_size() - 1:
            if at == (0, 0, 1):
                tnt.save_now()
            if at == (0, 0, 3):
                os.kill(os.getpid(), signal.SIGKILL)
        elif at >= (1, 1, 1):
            if at == (1, 1, 1):
                os.kill(os.getppid(), signal.SIGTERM)
            time.sleep(1)  # the signal takes its time to come back


keras.utils.set_random_seed(7)
layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dropout(0.3), keras.layers.Dense(2)]
model = tnt.Model(keras.Sequential(layers))
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rng = np.random.default_rng(3)
history = model.fit(
    rng.normal(size=(18, 6)).astype("float32"),
    rng.integers(0, 2, 18),
    batch_size=4,
    epochs=3,
    verbose=0,
    callbacks=[
        keras.callbacks.BackupAndRestore(FOLDER),
        *([Disturb()] if MANNER == "disturbed" else []),
    ],
)
values = b"".join(np.asarray(each).tobytes() for each in model.variables)
if tnt.is_master_rank():
    end = f"{hashlib.sha256(values).hexdigest()} {history.history['loss']}"
    pathlib.Path(f"{FOLDER}.end").write_text(end)
