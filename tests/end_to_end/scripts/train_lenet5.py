"""Train LeNet-5 with uneven batches; rank 0 prints a digest of history and weights."""

import hashlib
import json

import keras
import numpy as np

import tarantella as tnt

rng = np.random.default_rng(3)
images = rng.random((90, 28, 28, 1), np.float32)
labels = rng.integers(0, 10, 90)
keras.utils.set_random_seed(5)
model = tnt.Model(
    keras.Sequential(
        [
            keras.layers.Conv2D(6, 5, activation="relu", padding="same"),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(16, 5, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(84, activation="relu"),
            keras.layers.Dense(10),
        ]
    )
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), loss, metrics=["accuracy"])
history = model.fit(images, labels, batch_size=17, epochs=2, verbose=0)
digest = hashlib.sha256(b"".join(np.asarray(w).tobytes() for w in model.get_weights()))
tnt.print(json.dumps([history.history, digest.hexdigest()]))
