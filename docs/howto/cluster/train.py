"""Fit a line on all ranks: what a new installation must be able to do, in seconds."""

import keras
import numpy as np

import tarantella as tnt

keras.utils.set_random_seed(1)
x = np.linspace(-1, 1, 60, dtype="float32").reshape(60, 1)
model = tnt.Model(keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]))
model.compile(keras.optimizers.SGD(0.5), loss="mse")
losses = model.fit(x, 2 * x + 1, batch_size=20, epochs=20, verbose=0).history["loss"]
if losses[-1] > 1e-6:
    raise SystemExit(f"The line was not found: losses {losses}")
print(f"trained on {tnt.get_size()} ranks")
