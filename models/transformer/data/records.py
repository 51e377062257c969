"""The TFRecords of tensor2tensor and of the Model Garden's Transformer.

A folder holds shards such as `wmt32k-train-00001-of-00100` and `wmt32k-dev-00001-of-00001`; what
counts is `train` or `dev` in the name. Each record is an Example with the int64 lists `inputs` and
`targets`, of any length, that end with EOS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from models.shared.record_shards import require_all_shards, sets_of_shards
from models.transformer.data.sentence_pairs import SentencePairs, Sequences, begins_of, concatenate

PREFIX = "wmt32k"
RECORDS_AT_A_TIME = 4096  # that are parsed by one operation
FIELDS = {name: tf.io.RaggedFeature(tf.int64) for name in ("inputs", "targets")}
HEADER_BYTES = 12  # the length of the first record, and its checksum
FRAME_BYTES = HEADER_BYTES + 4  # around each record, with its checksum


def find_records(folder: str | Path, split: str) -> list[Path]:
    """Return the files with records of a split, sorted; other files may be beside them.

    Raises:
        FileNotFoundError: If shards are missing, by the number in the names of the others.
    """
    beside = sorted(path for path in Path(folder).glob(f"*{split}*") if path.is_file())
    records = {path for path in beside if is_record_file(path)}
    for shard_set, shards in sets_of_shards(beside).items():
        if records.intersection(shards):
            require_all_shards(shard_set, shards)
            # A shard whose first record is cut does not look like one; reading names it.
            records.update(shards)
    return sorted(records)


def is_record_file(path: Path) -> bool:
    """Whether a file begins with the length of a record that it can hold."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    length = int.from_bytes(header[:8], "little")
    return len(header) == HEADER_BYTES and FRAME_BYTES + length <= path.stat().st_size


def read_records(paths: Sequence[Path], num_pairs: int | None = None) -> SentencePairs:
    """Read the pairs of files, one file after the other.

    Args:
        paths: What `find_records` has found.
        num_pairs: So many are read; None reads all.

    Raises:
        ValueError: If a file is damaged, or a record has no such lists.
    """
    parts: list[SentencePairs] = []
    num_read = 0
    for path in paths:
        if num_read == num_pairs:
            break
        for part in parts_of_file(path, None if num_pairs is None else num_pairs - num_read):
            parts.append(part)
            num_read += part.num_pairs
    sides = zip(*parts, strict=True) if parts else ((), ())
    return SentencePairs(*(concatenate(side) for side in sides))


def parts_of_file(path: Path, num_pairs: int | None) -> Iterator[SentencePairs]:
    """Read a file, some records at a time.

    Args:
        path: Of the file.
        num_pairs: So many are read; None reads all.

    Raises:
        ValueError: If the file is damaged, or a record has no such lists.
    """
    records = tf.data.TFRecordDataset(str(path))
    if num_pairs is not None:
        records = records.take(num_pairs)
    parsed = records.batch(RECORDS_AT_A_TIME).map(parse_records, tf.data.AUTOTUNE)
    missing = path.stat().st_size
    try:
        for fields, size in parsed.prefetch(tf.data.AUTOTUNE):
            pairs = SentencePairs(*(sequences_of(fields[name]) for name in FIELDS))
            if min(side.lengths.min() for side in pairs) == 0:  # as a missing list is read
                raise not_of_pairs(path)
            missing -= int(size)
            yield pairs
    except tf.errors.DataLossError as error:
        raise damaged(path) from error
    except tf.errors.InvalidArgumentError as error:
        raise not_of_pairs(path) from error
    if num_pairs is None and missing:  # a record without all of its length ends the dataset
        raise damaged(path)


def parse_records(records: tf.Tensor) -> tuple[dict[str, tf.RaggedTensor], tf.Tensor]:
    """Return the lists of serialised Examples, and the bytes that these take in a file."""
    size = tf.reduce_sum(tf.cast(tf.strings.length(records), tf.int64) + FRAME_BYTES)
    return tf.io.parse_example(records, FIELDS), size


def sequences_of(ragged: tf.RaggedTensor) -> Sequences:
    """Return the rows of a ragged tensor."""
    return Sequences(
        ragged.values.numpy().astype(np.int32), begins_of(ragged.row_lengths().numpy())
    )


def damaged(path: Path) -> ValueError:
    """Return the error for a file that is not what was written."""
    return ValueError(
        f"{path} ends within a record, or is damaged: copy it again, or prepare it again."
    )


def not_of_pairs(path: Path) -> ValueError:
    """Return the error for records that are something else."""
    return ValueError(
        f"The records of {path} are no pairs of ids `inputs` and `targets`. "
        f"models/transformer/prepare_data.py makes such records."
    )


def write_records(
    pairs: SentencePairs,
    folder: str | Path,
    split: str,
    num_shards: int,
    shuffle_seed: int | None = None,
) -> list[Path]:
    """Write pairs in shards, one after the other to the next shard. Each appears as a whole.

    Args:
        pairs: Encoded sentences.
        folder: Where the shards are written.
        split: `train` or `dev`.
        num_shards: Number of files.
        shuffle_seed: Decides the order of all pairs; None keeps the order.
    """
    order = np.arange(pairs.num_pairs)
    if shuffle_seed is not None:
        np.random.default_rng(shuffle_seed).shuffle(order)
    Path(folder).mkdir(parents=True, exist_ok=True)
    paths = []
    for shard in range(num_shards):
        path = Path(folder) / f"{PREFIX}-{split}-{shard + 1:05d}-of-{num_shards:05d}"
        scratch = path.with_name(f".{path.name.replace(split, 'part')}.{os.getpid()}")
        with tf.io.TFRecordWriter(str(scratch)) as writer:
            for number in order[shard::num_shards]:
                writer.write(serialise(pairs.inputs[number], pairs.targets[number]))
        scratch.replace(path)
        paths.append(path)
    return paths


def serialise(inputs: np.ndarray, targets: np.ndarray) -> bytes:
    """Return an Example of two sequences of ids."""

    def as_feature(ids: np.ndarray) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=ids.tolist()))

    feature = {"inputs": as_feature(inputs), "targets": as_feature(targets)}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    return bytes(example.SerializeToString(deterministic=True))
