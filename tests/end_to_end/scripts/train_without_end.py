"""Trains until it is ended from outside; tells through files which job and processes it is.

Usage: train_without_end.py FOLDER [RANK_THAT_RAISES]
"""

import os
import pathlib
import sys

import keras
import tensorflow as tf

import tarantella as tnt

FOLDER = pathlib.Path(sys.argv[1])
RANK_THAT_RAISES = int(sys.argv[2]) if len(sys.argv) > 2 else None


class TellThatTrainingRuns(keras.callbacks.Callback):
    """In the middle of the epoch, writes this rank's process number, or raises."""

    def on_train_batch_end(self, batch, logs=None):
        if batch == 20:
            if tnt.get_rank() == RANK_THAT_RAISES:
                raise RuntimeError("this rank does not like step 20")
            # Renamed, so that it is complete when it is seen.
            hidden = FOLDER / f".{tnt.get_rank()}"
            hidden.write_text(str(os.getpid()))
            hidden.rename(FOLDER / str(tnt.get_rank()))


if tnt.is_master_rank():
    (FOLDER / "job").write_text(os.environ["TNT_JOB_ID"])
model = keras.Sequential([keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(1)])
model = tnt.Model(model)
model.compile("adam", "mse")
data = tf.data.Dataset.from_tensors((tf.ones([32]), tf.ones([1]))).repeat().batch(8)
model.fit(data, steps_per_epoch=10**6, verbose=0, callbacks=[TellThatTrainingRuns()])
