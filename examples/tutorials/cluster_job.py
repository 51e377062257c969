"""Train as a job of a cluster that may end before the training does, and continue in the next."""

import csv
import signal
import sys

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits

import tarantella as tnt

log, *options = sys.argv[1:]
keras.utils.set_random_seed(1)


class TimeLimit(keras.callbacks.Callback):
    """Sends the signal by which SLURM announces the time limit, to rehearse it without SLURM."""

    def on_epoch_begin(self, epoch, logs=None):
        if epoch == 5 and tnt.is_master_rank():
            signal.raise_signal(signal.SIGUSR1)


digits = load_digits()
pictures = digits.images[..., np.newaxis].astype("float32") / 16
training, validation = np.arange(1500), np.arange(1500, 1797)

model = keras.Sequential(
    [
        keras.Input((8, 8, 1)),
        layers.Conv2D(16, 3, activation="gelu"),
        layers.Conv2D(32, 3, activation="gelu"),
        layers.Flatten(),
        layers.Dropout(0.3),
        layers.Dense(10),
    ]
)
model = tnt.Model(model)
model.compile(
    optimizer=keras.optimizers.Adam(1e-3),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
callbacks = [keras.callbacks.BackupAndRestore(f"{log}.backup")]
if "--rehearse" in options:
    callbacks.append(TimeLimit())
history = model.fit(
    pictures[training],
    digits.target[training],
    batch_size=64,
    epochs=12,
    validation_data=(pictures[validation], digits.target[validation]),
    callbacks=callbacks,
    verbose=2,
)

if tnt.is_master_rank():
    with open(log, "w") as file:
        rows = zip(history.epoch, *history.history.values(), strict=True)
        csv.writer(file).writerows([["epoch", *history.history], *rows])
loss, accuracy = model.evaluate(pictures[validation], digits.target[validation], verbose=0)
print(f"{len(history.epoch)} epochs, validation loss {loss:.4f}, accuracy {accuracy:.4f}")
