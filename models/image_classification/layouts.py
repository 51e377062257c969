"""The three ways in which ImageNet lies on disks, found by looking.

- TFDS: `imagenet2012-train.tfrecord-00000-of-01024`, as tensorflow-datasets prepares it, in the
  folder, or below it as in `imagenet2012/5.1.0`. The package is not needed to read it.
- Classic: `train-00000-of-01024`, as `build_image_data` of the TensorFlow models makes them.
- Class folders: `train/n01440764/n01440764_10026.JPEG`, as the archives are unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from models.image_classification.record_files import RecordIndex, index_records, read_record
from models.shared.record_shards import ShardSet, require_all_shards, sets_of_shards

SPLITS = {"train": ("train",), "validation": ("validation", "val")}
"""Names that a split may have on disks."""
_JPEG_SUFFIXES = {".jpeg", ".jpg"}


class Picture(NamedTuple):
    """What is read of one sample.

    Attributes:
        encoded: JPEG, a scalar of bytes.
        label: From 0, int32.
        boxes: Objects (1, n, 4), each as ymin, xmin, ymax, xmax from 0 to 1; n may be 0.
    """

    encoded: tf.Tensor
    label: tf.Tensor
    boxes: tf.Tensor


class PictureSource(NamedTuple):
    """Pictures that can be read in any order.

    Attributes:
        samples: Arrays with one entry per picture.
        read: Makes a `Picture` of one entry of each array.
    """

    samples: tuple[np.ndarray, ...]
    read: Callable[..., Picture]

    @property
    def num_samples(self) -> int:
        """Number of pictures."""
        return len(self.samples[0])


class FoundFiles(NamedTuple):
    """What the master rank tells the others about a split: plain values.

    Attributes:
        layout: `tfds`, `classic` or `folders`.
        records: Index of record files, or None.
        paths: Of single pictures.
        labels: Of single pictures.
    """

    layout: str
    records: RecordIndex | None
    paths: list[str]
    labels: list[int]


def find_files(data_dir: str | Path, split: str) -> FoundFiles:
    """Look for one split of a data set. Local.

    Args:
        data_dir: Folder of the data set.
        split: `train` or `validation`.

    Raises:
        FileNotFoundError: If it is in none of the three layouts; names what was looked for.
        ValueError: If what is there cannot be numbered or read.
    """
    root = Path(data_dir)
    for name in SPLITS[split]:
        if sets := sets_of_shards(sorted(root.glob(f"{name}-*-of-*"))):
            return _index_one("classic", sets)
        if (root / name).is_dir():
            return _find_in_folders(root / name, _classes_of(root, root / name))
        for depth in ("", "*/", "*/*/"):
            if sets := sets_of_shards(sorted(root.glob(f"{depth}*-{name}.tfrecord-*-of-*"))):
                return _index_one("tfds", sets)
    raise FileNotFoundError(
        f"{root} holds no pictures for {split}. Looked for {split}-00000-of-... (classic "
        f"TFRecords), ...-{split}.tfrecord-00000-of-... (tensorflow-datasets, also in folders "
        f"below) and {split}/CLASS/*.JPEG: check --data_dir, or add --synthetic_data."
    )


def _index_one(layout: str, sets: Mapping[ShardSet, list[Path]]) -> FoundFiles:
    if len(sets) > 1:
        raise ValueError(
            "Several data sets were found, "
            + ", ".join(f"{prefix}-*-of-{number:05d}" for prefix, number in sorted(sets))
            + ": give --data_dir the folder of one."
        )
    [(shard_set, files)] = sets.items()
    require_all_shards(shard_set, files)
    index = index_records(files)
    if not len(index.offsets):
        raise ValueError(
            f"{files[0].parent} holds no record in {files[0].name} and the files beside it: "
            "copy them again, or prepare them again."
        )
    return FoundFiles(layout, index, [], [])


def _classes_of(root: Path, split: Path) -> list[str]:
    """Return the names that number the classes of a split: those of the training pictures.

    A split that lacks a class would otherwise call all classes behind it by other numbers.
    """
    known = next((root / name for name in SPLITS["train"] if (root / name).is_dir()), split)
    names = _folders_in(known)
    unknown = [name for name in _folders_in(split) if name not in set(names)]
    if unknown:
        raise ValueError(
            f"{split} has classes that {known} lacks, such as {unknown[0]}: the folders of both "
            "must have the same names."
        )
    return names


def _folders_in(root: Path) -> list[str]:
    return sorted(folder.name for folder in root.iterdir() if folder.is_dir())


def _find_in_folders(root: Path, classes: list[str]) -> FoundFiles:
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        folder = root / name
        if not folder.is_dir():
            continue
        pictures = sorted(
            file for file in folder.iterdir() if file.suffix.lower() in _JPEG_SUFFIXES
        )
        paths += map(str, pictures)
        labels += [label] * len(pictures)
    if not paths:
        raise FileNotFoundError(
            f"{root} has no folder with JPEGs: put the pictures of each class into a folder of "
            "its own."
        )
    return FoundFiles("folders", None, paths, labels)


def open_source(found: FoundFiles) -> PictureSource:
    """Return what reads the pictures that were found. Local.

    Args:
        found: On this rank or on the master.
    """
    index = found.records
    if index is None:
        samples = (np.array(found.paths), np.array(found.labels, np.int32))
        return PictureSource(samples, _read_file)
    parse = {"tfds": _parse_tfds, "classic": _parse_classic}[found.layout]

    def read(file: tf.Tensor, offset: tf.Tensor, length: tf.Tensor) -> Picture:
        return parse(read_record(index, file, offset, length))

    return PictureSource((index.files, index.offsets, index.lengths), read)


def _read_file(path: tf.Tensor, label: tf.Tensor) -> Picture:
    encoded = tf.io.read_file(path)
    # One of ImageNet's files is a PNG all the same: n02105855_2933.JPEG.
    encoded = tf.cond(tf.io.is_jpeg(encoded), lambda: encoded, lambda: _jpeg_of_png(encoded))
    return Picture(encoded, label, _no_boxes())


def _jpeg_of_png(encoded: tf.Tensor) -> tf.Tensor:
    return tf.io.encode_jpeg(tf.io.decode_png(encoded, channels=3), quality=100)


def _no_boxes() -> tf.Tensor:
    return tf.zeros([1, 0, 4])


def _parse_tfds(record: tf.Tensor) -> Picture:
    features = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }
    parsed = tf.io.parse_single_example(record, features)
    return Picture(parsed["image"], tf.cast(parsed["label"], tf.int32), _no_boxes())


def _parse_classic(record: tf.Tensor) -> Picture:
    sides = ("ymin", "xmin", "ymax", "xmax")
    features: dict[str, Any] = {
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "image/class/label": tf.io.FixedLenFeature([], tf.int64),
        **{f"image/object/bbox/{side}": tf.io.VarLenFeature(tf.float32) for side in sides},
    }
    parsed = tf.io.parse_single_example(record, features)
    boxes = [tf.sparse.to_dense(parsed[f"image/object/bbox/{side}"]) for side in sides]
    # Labels count from 1 there; 0 was a class for the background.
    label = tf.cast(parsed["image/class/label"], tf.int32) - 1
    return Picture(parsed["image/encoded"], label, tf.stack(boxes, axis=-1)[tf.newaxis])
