"""Read any record of TFRecord files at once, without those before it.

An index of where records begin is made once from their lengths, which stand in front of them. So a
shuffle moves numbers instead of pictures, over the whole data set, and each rank reads its own
records only.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

logger = logging.getLogger("trainer")

_LENGTH = struct.Struct("<Q")
_BEFORE = 12  # bytes before a record: its length, and a checksum of the length
_AFTER = 4  # checksum of the record
_NUM_THREADS = 16  # waiting for a file system, most of the time


class RecordIndex(NamedTuple):
    """Where records are.

    Attributes:
        paths: Of the files.
        files: Number of each record's file, (num_records,).
        offsets: First byte of each record in its file, (num_records,).
        lengths: Of each record, in bytes, (num_records,).
    """

    paths: list[str]
    files: np.ndarray
    offsets: np.ndarray
    lengths: np.ndarray


def index_records(paths: Sequence[Path]) -> RecordIndex:
    """Find all records of files, in the order of the files. Local.

    Args:
        paths: Of TFRecord files, not compressed.

    Raises:
        ValueError: If a file ends within a record, as after an interrupted copy.
    """
    with ThreadPoolExecutor(_NUM_THREADS) as pool:
        found = list(pool.map(_records_of, paths))
    counts = [len(offsets) for offsets, _ in found]
    if empty := [str(path) for path, count in zip(paths, counts, strict=True) if count == 0]:
        logger.warning(
            "%d of %d files have no records, such as %s: copy them again, unless they were made "
            "like that.",
            len(empty),
            len(paths),
            empty[0],
        )
    return RecordIndex(
        [str(path) for path in paths],
        np.repeat(np.arange(len(paths), dtype=np.int64), counts),
        np.concatenate([offsets for offsets, _ in found]),
        np.concatenate([lengths for _, lengths in found]),
    )


def _records_of(path: Path) -> tuple[np.ndarray, np.ndarray]:
    size = path.stat().st_size
    offsets, lengths, position = [], [], 0
    with path.open("rb", buffering=0) as file:
        while position < size:
            file.seek(position)
            head = file.read(_BEFORE)
            length = _LENGTH.unpack_from(head)[0] if len(head) == _BEFORE else size
            offsets.append(position + _BEFORE)
            lengths.append(length)
            position += _BEFORE + length + _AFTER
    if position != size:
        raise ValueError(
            f"{path} ends within a record, or is no TFRecord file: copy it again, or prepare it "
            "again without compression."
        )
    return np.array(offsets, np.int64), np.array(lengths, np.int64)


def read_record(
    index: RecordIndex, file: tf.Tensor, offset: tf.Tensor, length: tf.Tensor
) -> tf.Tensor:
    """Return the bytes of one record, a scalar. In a function of a dataset, too. Local.

    `tf.data.TFRecordDataset` itself always begins at the first record.

    Args:
        index: Of its data set.
        file: One of `index.files`.
        offset: The same one of `index.offsets`.
        length: The same one of `index.lengths`.
    """
    kinds = {"output_types": [tf.string], "output_shapes": [[]]}
    records = tf.raw_ops.TFRecordDatasetV2(
        filenames=[tf.gather(tf.constant(index.paths), file)],
        compression_type="",
        buffer_size=_BEFORE + length + _AFTER,  # so that nothing is read beyond the record
        byte_offsets=[offset - _BEFORE],
    )
    first = tf.raw_ops.TakeDataset(input_dataset=records, count=1, **kinds)
    [record] = tf.raw_ops.DatasetToSingleElement(dataset=first, **kinds)
    return record
