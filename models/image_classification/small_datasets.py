"""Small data sets in the three layouts of ImageNet, cut out of photographs of scikit-learn.

Two classes: a temple and a flower. For tests, and to try the trainer without ImageNet.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

CLASSES = ("china", "flower")
"""Names of scikit-learn's photographs; the number of a class is its place here."""


class SmallPicture(NamedTuple):
    """A JPEG and the number of its class."""

    encoded: bytes
    label: int


def cut_out(number: int, seed: int = 0) -> list[SmallPicture]:
    """Return pictures of 40 to 80 pixels, of each class in turn. Needs scikit-learn and Pillow.

    Args:
        number: Of pictures.
        seed: For their places in the photographs.
    """
    from PIL import Image
    from sklearn import datasets

    photographs = [datasets.load_sample_image(f"{name}.jpg") for name in CLASSES]
    random = np.random.default_rng(seed)
    pictures = []
    for index in range(number):
        label = index % len(CLASSES)
        height, width = random.integers(40, 81, size=2)
        top = random.integers(photographs[label].shape[0] - height)
        left = random.integers(photographs[label].shape[1] - width)
        part = photographs[label][top : top + height, left : left + width]
        stream = io.BytesIO()
        Image.fromarray(part).save(stream, "JPEG", quality=90)
        pictures.append(SmallPicture(stream.getvalue(), label))
    return pictures


def write_class_folders(folder: Path, pictures: Sequence[SmallPicture]) -> None:
    """Write a split as a folder with a folder per class. Local."""
    for number, picture in enumerate(pictures):
        of_class = folder / CLASSES[picture.label]
        of_class.mkdir(parents=True, exist_ok=True)
        (of_class / f"{number:04d}.JPEG").write_bytes(picture.encoded)


def write_classic_records(
    folder: Path, split: str, pictures: Sequence[SmallPicture], num_files: int = 2
) -> None:
    """Write a split as `build_image_data` does: labels from 1, with a box for an object. Local."""

    def example(picture: SmallPicture) -> tf.train.Example:
        box = {"xmin": 0.2, "xmax": 0.9, "ymin": 0.1, "ymax": 0.8}
        features = {f"image/object/bbox/{side}": _floats(value) for side, value in box.items()}
        features["image/encoded"] = _bytes(picture.encoded)
        features["image/class/label"] = _integers(picture.label + 1)
        return tf.train.Example(features=tf.train.Features(feature=features))

    names = [f"{split}-{n:05d}-of-{num_files:05d}" for n in range(num_files)]
    _write_records(folder, names, [example(picture) for picture in pictures])


def write_tfds_records(
    folder: Path, split: str, pictures: Sequence[SmallPicture], num_files: int = 2
) -> None:
    """Write a split as tensorflow-datasets does in `imagenet2012/5.1.0`. Local."""

    def example(picture: SmallPicture) -> tf.train.Example:
        features = {"image": _bytes(picture.encoded), "label": _integers(picture.label)}
        features["file_name"] = _bytes(b"n01440764_10026.JPEG")
        return tf.train.Example(features=tf.train.Features(feature=features))

    names = [f"imagenet2012-{split}.tfrecord-{n:05d}-of-{num_files:05d}" for n in range(num_files)]
    version = folder / "imagenet2012/5.1.0"
    _write_records(version, names, [example(picture) for picture in pictures])


def _write_records(
    folder: Path, names: Sequence[str], examples: Sequence[tf.train.Example]
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        with tf.io.TFRecordWriter(str(folder / name)) as writer:
            for example in examples[number :: len(names)]:
                writer.write(example.SerializeToString())


def _bytes(value: bytes) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def _integers(value: int) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))


def _floats(value: float) -> tf.train.Feature:
    return tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
