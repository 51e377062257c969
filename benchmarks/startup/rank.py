"""One process: trains a small LeNet-5 for two short epochs and saves it in between."""

# Usage: python -m benchmarks.startup.rank {plain,tnt} FOLDER POINT. Launchers of others start it
# too. With the model `plain` the processes do not communicate.

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.startup.points import ImportWatch, Points

NUM_CLASSES, BATCH_SIZE, STEPS = 10, 16, 30


def train(kind: str, folder: Path, points: Points) -> None:
    """Build the model, train and save it, and tell of all points on the way."""
    import keras
    import numpy as np

    from benchmarks.startup.watches import StepWatch, TraceWatch

    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(6, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 5, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            TraceWatch(points),
            layers.Dense(120, activation="relu"),
            layers.Dense(84, activation="relu"),
            layers.Dense(NUM_CLASSES, activation="softmax"),
        ]
    )
    if kind == "tnt":
        import tarantella as tnt

        model = tnt.Model(model)
    model.compile("sgd", "sparse_categorical_crossentropy", jit_compile=False)
    random = np.random.default_rng(1)
    images = random.random((STEPS * BATCH_SIZE, 28, 28, 1), dtype=np.float32)
    labels = random.integers(NUM_CLASSES, size=len(images), dtype=np.int32)
    saves = kind == "tnt" or points.rank == 0
    watch = StepWatch(points, folder / "model.keras" if saves else None)
    model.fit(images, labels, BATCH_SIZE, epochs=2, verbose=0, shuffle=False, callbacks=[watch])


def main() -> None:
    kind, folder, fatal = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    points = Points(folder, fatal)
    sys.meta_path.insert(0, ImportWatch(points))
    train(kind, folder, points)


if __name__ == "__main__":
    main()
