"""Fit a distributed model and plain ones, load a file of rank 0, and die or end.

`late` as first argument: rank 1 begins to import when the others wait for it.
"""

# ruff: noqa: E402 - what is imported when is what is tested

import os
import sys
import time

rank = os.environ.get("TNT_RANK", "0")
if "late" in sys.argv and rank == "1":
    time.sleep(9)

import keras
import numpy as np
import tensorflow as tf
from keras.models import load_model


@tf.function
def doubled(x):
    if tf.reduce_sum(x) > 0:  # AutoGraph generates code for it
        x = 2 * x
    return x


def small_model(distribute=lambda model: model):
    model = distribute(keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)]))
    model.compile("sgd", "mse")
    model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
    return model


doubled(tf.ones(3))  # before a name of tarantella is used

import tarantella as tnt

tnt.Barrier().execute()
small_model(tnt.Model)
print(f"{rank}: distributed", file=sys.stderr)
small_model().save(f"{sys.argv[1]}/of_rank_{rank}.keras")
small_model()
doubled(tf.ones((3, 2)))
for load in (load_model, keras.models.load_model, tf.keras.models.load_model):
    try:
        load(f"{sys.argv[1]}/of_rank_0.keras" if rank == "0" else f"{sys.argv[1]}/missing.keras")
    except ValueError as error:
        print(f"{rank}: {error}")
tnt.Barrier().execute()
if rank == "1" and "die" in sys.argv:
    os.kill(os.getpid(), 9)
tnt.Barrier().execute()
