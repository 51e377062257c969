"""Train a small network on noisy patterns: `train.py STEPS`."""

from __future__ import annotations

import sys

import keras
import numpy as np
import tensorflow as tf

import tarantella as tnt

SAMPLES, PIXELS, CLASSES, NOISE = 2048, 12, 10, 1.5
BATCH_SIZE = 128  # 16 samples for each of 8 lanes


def build_model() -> keras.Model:
    """Two convolutions with batch normalisation, then dropout."""
    layers = keras.layers
    stack = [keras.Input((PIXELS, PIXELS, 1))]
    for filters in (16, 32):
        convolution = layers.Conv2D(filters, 3, padding="same", use_bias=False)
        stack += [convolution, layers.BatchNormalization(), layers.ReLU(), layers.MaxPooling2D()]
    stack += [layers.Flatten(), layers.Dropout(0.3), layers.Dense(CLASSES)]
    return keras.Sequential(stack, name="patterns")


def make_batches() -> tf.data.Dataset:
    """Full batches without end: a pattern for each class, and noise on it."""
    random = np.random.default_rng(1)
    labels = random.integers(CLASSES, size=SAMPLES)
    patterns = random.standard_normal((CLASSES, PIXELS, PIXELS, 1))
    noise = random.standard_normal((SAMPLES, PIXELS, PIXELS, 1))
    images = (patterns[labels] + NOISE * noise).astype(np.float32)
    samples = tf.data.Dataset.from_tensor_slices((images, labels))
    return samples.shuffle(SAMPLES, seed=1).repeat().batch(BATCH_SIZE)


def main() -> None:
    num_steps = int(sys.argv[1])
    keras.utils.set_random_seed(1)
    model = tnt.Model(build_model())
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.002), loss)
    # Keras gives the mean loss of an epoch: with one step in each it is that of the step.
    model.fit(make_batches(), epochs=num_steps, steps_per_epoch=1, verbose=0)


if __name__ == "__main__":
    main()
