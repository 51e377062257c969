"""Datasets for `fit`: pictures from disks, or synthetic ones.

Batches are those of the whole step. Every rank makes the same dataset, and Tarantella lets each
read and decode its own samples of it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from models.image_classification.layouts import FoundFiles, Picture, find_files, open_source
from models.image_classification.preprocessing import (
    evaluation_image,
    normalized,
    seed_of_sample,
    training_image,
)

SYNTHETIC_POOL = 32
"""Synthetic pictures that are held in memory, and given again and again."""


def _here(find: Callable[[], FoundFiles]) -> FoundFiles:
    return find()


def load_dataset(
    dataset_type: str,
    data_dir: str | Path,
    num_samples: int | None,
    batch_size: int,
    dtype: Any = tf.float32,
    drop_remainder: bool = False,
    shuffle_seed: int = 42,
    image_size: int = 224,
    num_classes: int | None = None,
    from_master: Callable[[Callable[[], FoundFiles]], FoundFiles] = _here,
) -> tf.data.Dataset:
    """Return images (batch, image_size, image_size, 3) and labels (batch,), int32 from 0.

    Training data are shuffled as a whole, anew in each epoch. Reads only what the files say about
    themselves; pictures are read while the dataset is used.

    Args:
        dataset_type: `train` or `validation`.
        data_dir: Folder of the data set, in one of the layouts of `layouts`.
        num_samples: Pictures of an epoch, spread evenly over the files; None, or more than there
            are: all.
        batch_size: Samples of a step, of all ranks together.
        dtype: Of the images.
        drop_remainder: Whether a last batch that is not full is left out.
        shuffle_seed: For the order, and for all that is random in training images.
        image_size: Side of the images, in pixels.
        num_classes: More folders of classes are an error, and so are other labels when they are
            read; None does not look.
        from_master: Lets one rank look at the files for all, `Distribution.from_master`.
    """
    is_training = dataset_type == "train"
    found = from_master(lambda: find_files(data_dir, dataset_type))
    num_found = max(found.labels, default=-1) + 1
    if num_classes is not None and num_found > num_classes:
        raise ValueError(
            f"{data_dir} has pictures of {num_found} classes, and the network has {num_classes}: "
            f"give --num_classes={num_found}."
        )
    source = open_source(found)
    numbers = evenly_spread(num_samples, source.num_samples)

    def load(position: tf.Tensor, sample: Any) -> tuple[tf.Tensor, tf.Tensor]:
        number, *entries = sample
        picture: Picture = source.read(*entries)
        if is_training:
            seed = seed_of_sample(position, number, shuffle_seed)
            image = training_image(picture.encoded, picture.boxes, image_size, seed)
        else:
            image = evaluation_image(picture.encoded, image_size)
        label = picture.label
        if num_classes is not None:
            label = label_of_network(label, num_classes)
        return normalized(image, dtype), label

    samples = (numbers, *(entries[numbers] for entries in source.samples))
    dataset = tf.data.Dataset.from_tensor_slices(samples)
    if is_training:
        dataset = dataset.shuffle(len(numbers), seed=shuffle_seed)
    positions = tf.data.Dataset.range(len(numbers))
    dataset = tf.data.Dataset.zip(positions, dataset)
    dataset = dataset.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(batch_size, drop_remainder=drop_remainder)
    return dataset.prefetch(tf.data.AUTOTUNE)


def label_of_network(label: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Return a label, which is an error if the network has no output for it. In a dataset. Local.

    A loss of smoothed labels would take it for a picture that shows none of the classes.

    Args:
        label: Scalar, int32.
        num_classes: Outputs of the network.
    """
    is_known = tf.logical_and(label >= 0, label < num_classes)
    words = f"a picture has label {{}}, and the network has labels from 0 to {num_classes - 1}"
    with tf.control_dependencies(
        [tf.debugging.Assert(is_known, [tf.strings.format(words, label)])]
    ):
        return tf.identity(label)


def evenly_spread(num_samples: int | None, available: int) -> np.ndarray:
    """Return numbers of samples, ascending, int64, evenly spread over those available. Pure.

    Args:
        num_samples: How many; None, or more than available: all.
        available: Number of samples.
    """
    taken = available if num_samples is None else min(num_samples, available)
    return np.arange(taken, dtype=np.int64) * available // taken


def synthetic_dataset(
    num_samples: int,
    batch_size: int,
    dtype: Any = tf.float32,
    drop_remainder: bool = False,
    seed: int = 42,
    image_size: int = 224,
    num_classes: int = 1000,
) -> tf.data.Dataset:
    """Return random images and labels, like those of `load_dataset`, that cost no time to read.

    A few dozen are made once; ranks make equal ones.

    Args:
        num_samples: Of an epoch.
        batch_size: Samples of a step, of all ranks together.
        dtype: Of the images.
        drop_remainder: Whether a last batch that is not full is left out.
        seed: Of the pixels and labels.
        image_size: Side of the images, in pixels.
        num_classes: Labels are less.
    """
    random = np.random.default_rng(seed)
    size = min(num_samples, SYNTHETIC_POOL)
    pixels = random.integers(256, size=(size, image_size, image_size, 3)).astype(np.float32)
    images = normalized(tf.constant(pixels), dtype)
    labels = tf.constant(random.integers(num_classes, size=size, dtype=np.int32))

    def take(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return images[number % size], labels[number % size]

    dataset = tf.data.Dataset.range(num_samples).map(take, num_parallel_calls=tf.data.AUTOTUNE)
    dataset = dataset.batch(batch_size, drop_remainder=drop_remainder)
    return dataset.prefetch(tf.data.AUTOTUNE)
