"""Train a few weights and print all that must not depend on the number of ranks.

Rank 0 trains with plain Keras first, which prints the same results.
"""

import json
import os

import keras
import numpy as np
import tensorflow as tf


def train(distribute):
    """Train a small model; `distribute` makes a Tarantella model of it, or leaves it."""
    keras.backend.clear_session()  # layers get the same names on all ranks
    keras.utils.set_random_seed(3)
    x = np.linspace(-1, 1, 23 * 4, dtype="float32").reshape(23, 4)
    y = np.sin(3 * x).sum(axis=1, keepdims=True)
    samples = tf.data.Dataset.from_tensor_slices((x, y))
    batches = samples.shuffle(23, seed=5).map(lambda x, y: (2 * x, y)).batch(5)

    model = keras.Sequential([keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
    model.build((None, 4))
    model = distribute(model)
    model.compile(keras.optimizers.Adam(1e-2), loss="mse", metrics=["mae"])
    history = model.fit(batches, epochs=3, verbose=0).history
    return {
        "history": history,
        "evaluate": model.evaluate(samples.batch(5), verbose=0),
        "predict": model.predict(samples.batch(5), verbose=0).tolist(),
        "weights": [weight.tolist() for weight in model.get_weights()],
    }


if os.environ["TNT_RANK"] == "0":
    print(json.dumps(train(lambda model: model)))

import tarantella as tnt  # noqa: E402 - plain Keras has been alone so far

print(json.dumps(train(tnt.Model)))
