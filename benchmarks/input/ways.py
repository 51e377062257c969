"""The serial pipeline, and the ways in which one rank can get its part of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.data.experimental.ops import distribute as tensorflow_distribute

import tnt_data
from tnt_data import slice_batches

PIXELS = 224
Way = Callable[[Path, int, int], Any]


def serial(folder: Path, batch_size: int, size: int) -> Any:
    """What a serial script reads: shuffle names, then read, decode, augment and batch."""
    return read_images(shuffle_names(folder), batch_size)


def shuffle_names(folder: Path) -> Any:
    """File names and numbers of all images, in random order."""
    paths = sorted(str(path) for path in folder.glob("*.jpg"))
    samples = tf.data.Dataset.from_tensor_slices((paths, list(range(len(paths)))))
    return samples.shuffle(len(paths), seed=1)


def read_images(names: Any, batch_size: int) -> Any:
    """Batches of the images of these names."""
    images = names.map(load, num_parallel_calls=tf.data.AUTOTUNE)
    return images.batch(batch_size).prefetch(2)


def load(path: Any, number: Any) -> tuple[Any, Any]:
    """Read, decode and augment one image, as in training on ImageNet."""
    seed = tf.stack([number, 7])
    image = tf.io.decode_jpeg(tf.io.read_file(path), channels=3)
    image = tf.image.stateless_random_crop(image, [320, 320, 3], seed)
    image = tf.image.resize(image, [PIXELS, PIXELS])
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_brightness(image, 32.0, seed)
    return image / 255.0, number


def alone(folder: Path, batch_size: int, size: int) -> Any:
    """The serial script, given the names of this rank's images only: the least that is possible."""
    return read_images(shuffle_names(folder).shard(size, 0), batch_size // size)


def cut(folder: Path, batch_size: int, size: int) -> Any:
    """Make whole batches and cut this rank's rows out of them."""
    return slice_batches(serial(folder, batch_size, size), 0, size)


def distribute(folder: Path, batch_size: int, size: int) -> Any:
    """What tnt-data does."""
    return tnt_data.distribute(serial(folder, batch_size, size), 0, size)


def autoshard(folder: Path, batch_size: int, size: int) -> Any:
    """TensorFlow's own `AutoShardPolicy.DATA`, as in `MultiWorkerMirroredStrategy`."""
    # Its global batches are not those of the serial run.
    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    dataset = serial(folder, batch_size, size).with_options(options)
    return tensorflow_distribute._AutoShardDataset(dataset, size, 0)


WAYS: dict[str, Way] = {
    "serial": serial,
    "tnt": distribute,
    "alone": alone,
    "cut": cut,
    "autoshard": autoshard,
}
"""How rank 0, which has the largest part, reads its part, by name."""
