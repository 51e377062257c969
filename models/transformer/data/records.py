"""The TFRecords of tensor2tensor and of the Model Garden's Transformer.

A folder holds shards such as `wmt32k-train-00001-of-00100` and `wmt32k-dev-00001-of-00001`; what
counts is `train` or `dev` in the name. Each record is an Example with the int64 lists `inputs` and
`targets`, of any length, that end with EOS.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from models.transformer.data.batching import SHUFFLE_BUFFER, BatchSettings, is_within
from models.transformer.data.sentence_pairs import SentencePairs

PREFIX = "wmt32k"
FILES_AT_A_TIME = 16  # a number of its own, since the order of the pairs depends on it
SHARD_NAME = re.compile(r"(?P<prefix>.+)-\d+-of-(?P<number>\d+)")
HEADER_BYTES = 12  # the length of the first record, and its checksum


def find_records(folder: str | Path, split: str) -> list[Path]:
    """Return the files with records of a split, sorted; other files may be beside them.

    Raises:
        ValueError: If shards are missing, by the number in the names of the others.
    """
    beside = sorted(path for path in Path(folder).glob(f"*{split}*") if path.is_file())
    records = [path for path in beside if is_record_file(path)]
    shards = {path: SHARD_NAME.fullmatch(path.name) for path in beside}
    counts = Counter(shard.groups() for shard in shards.values() if shard)
    for path in records:
        shard = shards[path]
        if shard and (found := counts[shard.groups()]) != int(shard["number"]):
            raise ValueError(
                f"{folder} holds {found} of the {int(shard['number'])} files of {path.name}: copy "
                "the others, too."
            )
    return records


def is_record_file(path: Path) -> bool:
    """Whether a file begins with the length of a record that it can hold."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    length = int.from_bytes(header[:8], "little")
    return len(header) == HEADER_BYTES and HEADER_BYTES + length + 4 <= path.stat().st_size


def samples_of_records(paths: Sequence[Path], settings: BatchSettings) -> tf.data.Dataset:
    """Read the pairs that settings ask for, in their order, which is the same in every run.

    Args:
        paths: What `find_records` has found.
        settings: Of the batches.

    Returns:
        Yields `(inputs, targets)`, int64 of shape `(length,)`.

    Raises:
        ValueError: If the first record has no such lists.
    """
    require_pairs(paths[0])
    # Keras believes that data of unknown length have ended too early. How many pairs are short
    # enough is only known when all have been read.
    warnings.filterwarnings("ignore", message="Your input ran out of data")
    records = tf.data.Dataset.from_tensor_slices([str(path) for path in paths]).interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(FILES_AT_A_TIME, len(paths)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    if settings.num_sentences is not None:
        records = records.take(settings.num_sentences)
    samples = records.map(parse_record, num_parallel_calls=tf.data.AUTOTUNE)
    samples = samples.filter(lambda inputs, targets: is_within(settings, inputs, targets))
    if settings.shuffle_seed is not None:
        samples = samples.shuffle(SHUFFLE_BUFFER, seed=settings.shuffle_seed)
    return samples


def require_pairs(path: Path) -> None:
    """Check that the first record of a file is a pair: reading takes a missing list for empty."""
    record = next(tf.data.TFRecordDataset(str(path)).take(1).as_numpy_iterator())
    try:
        lengths = [int(tf.size(ids)) for ids in parse_record(record)]
    except tf.errors.InvalidArgumentError:
        lengths = [0]
    if 0 in lengths:
        raise ValueError(
            f"The records of {path} are no pairs of ids `inputs` and `targets`. "
            f"models/transformer/prepare_data.py makes such records."
        )


def parse_record(record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return inputs and targets, int64 of shape `(length,)`, of a serialised Example."""
    lists = tf.io.RaggedFeature(tf.int64)
    fields = tf.io.parse_single_example(record, {"inputs": lists, "targets": lists})
    return fields["inputs"], fields["targets"]


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
