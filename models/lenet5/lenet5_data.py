"""Digits as images of 32 x 32 pixels, the size that LeNet-5 was made for.

`digits` comes with scikit-learn (1797 images of 8 x 8 pixels, from the UCI collection of optically
recognised handwritten digits) and needs no network. `mnist` (70000 images of 28 x 28) is downloaded
by Keras.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import numpy as np
import tensorflow as tf

IMAGE_SHAPE = (32, 32, 1)
NUM_CLASSES = 10
NUM_DIGITS_TEST = 297  # which leaves 1500 of the 1797 images for training
NO_NETWORK = 69  # EX_UNAVAILABLE of sysexits.h


class Split(NamedTuple):
    """Images (num_samples, 32, 32, 1), float32 in [0, 1], and labels (num_samples,), int64."""

    images: np.ndarray
    labels: np.ndarray


def load(name: str) -> tuple[Split, Split]:
    """Training and test split of the data set `digits` or `mnist`."""
    return {"digits": load_digits, "mnist": load_mnist}[name]()


def load_digits() -> tuple[Split, Split]:
    """The digits of scikit-learn, each pixel enlarged to 4 x 4; 297 of them are for the test.

    The file is ordered by writer, so a fixed permutation spreads the writers over both splits.
    """
    from sklearn import datasets

    digits = datasets.load_digits()
    images = np.kron(digits.images / 16.0, np.ones((4, 4))).astype(np.float32)[..., np.newaxis]
    order = np.random.default_rng(0).permutation(len(images))
    test, train = order[:NUM_DIGITS_TEST], order[NUM_DIGITS_TEST:]
    labels = digits.target.astype(np.int64)
    return Split(images[train], labels[train]), Split(images[test], labels[test])


def load_mnist() -> tuple[Split, Split]:
    """MNIST with a border of two pixels; ends the program where it cannot be downloaded."""
    import keras

    try:
        train, test = keras.datasets.mnist.load_data()
    except Exception as error:  # Keras turns what the network reports into a plain Exception
        print(f"MNIST cannot be downloaded: {error}\nUse --data digits, which needs no network.")
        sys.exit(NO_NETWORK)
    return add_border(*train), add_border(*test)


def add_border(images: np.ndarray, labels: np.ndarray) -> Split:
    """Scale pixels (num_samples, 28, 28) of 0 to 255 to [0, 1] and surround them with zeros."""
    framed = np.pad(images.astype(np.float32) / 255.0, ((0, 0), (2, 2), (2, 2)))
    return Split(framed[..., np.newaxis], labels.astype(np.int64))


def make_datasets(name: str, batch_size: int, seed: int) -> tuple[tf.data.Dataset, tf.data.Dataset]:
    """Training data, shuffled anew each epoch, and test data, in batches of `batch_size`.

    `batch_size` is that of the whole step: ranks share each batch among themselves.
    """
    train, test = load(name)
    training_data = tf.data.Dataset.from_tensor_slices(tuple(train))
    training_data = training_data.shuffle(len(train.labels), seed=seed).batch(batch_size)
    test_data = tf.data.Dataset.from_tensor_slices(tuple(test)).batch(batch_size)
    return training_data, test_data
