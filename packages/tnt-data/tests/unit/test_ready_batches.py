"""Datasets of batches that no transformation has made: the first dimension is the batch."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import assert_ranks_share_serial_batches

import tnt_data

Data = tf.data.Dataset
SIZES = (5, 7, 1, 2)
"""Rows of the batches: fewer than ranks, and no two divided alike."""


def numbers(size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(size * 3, dtype=np.float32).reshape(size, 3) + 100 * seed
    return x, np.arange(size) + 10 * seed


def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for seed, size in enumerate(SIZES):
        yield numbers(size, seed)


SPEC = (tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int64))


def generated() -> tf.data.Dataset:
    return Data.from_generator(batches, output_signature=SPEC)


def slices() -> tf.data.Dataset:
    x, y = zip(*(numbers(5, seed) for seed in range(4)), strict=True)
    return Data.from_tensor_slices((np.stack(x), np.stack(y)))


def mixed(x: tf.Tensor, y: tf.Tensor) -> Any:
    return x - tf.reduce_mean(x, 0), y


def scaled(x: tf.Tensor, y: tf.Tensor) -> Any:
    return 2 * x, y


def ragged() -> tf.data.Dataset:
    rows = tf.ragged.constant([[1], [2, 3], [], [4, 5, 6], [7]])
    return Data.from_tensors((rows, tf.range(5))).repeat(2)


def sparse() -> tf.data.Dataset:
    return generated().map(lambda x, y: (tf.sparse.from_dense(x), y))


READY: dict[str, Callable[[], tf.data.Dataset]] = {
    "from_tensors": lambda: Data.from_tensors(numbers(5, 0)),
    "one row": lambda: Data.from_tensors(numbers(1, 0)).repeat(2),
    "slices of an array of batches": slices,
    "generator": generated,
    "generator of unknown shapes": lambda: Data.from_generator(batches, (tf.float32, tf.int64)),
    "shuffled": lambda: slices().shuffle(4, seed=3).repeat(2).prefetch(1),
    "shuffled without a seed": lambda: slices().map(scaled).shuffle(4, seed=42),
    "scaled": lambda: generated().map(scaled, num_parallel_calls=2).cache().take(3),
    "mixed": lambda: generated().map(mixed).skip(1),
    "filtered": lambda: generated().filter(lambda x, y: tf.size(y) > 1),
    "zip": lambda: Data.zip((generated(), generated().map(mixed))),
    "concatenate": lambda: generated().concatenate(generated().map(mixed)),
    "flat_map": lambda: Data.range(2).flat_map(lambda _: generated()),
    "dictionary": lambda: generated().map(lambda x, y: ({"a": x, "b": x[:, 0]}, y)),
    "inputs alone": lambda: generated().map(lambda x, y: x),
    "part of an element that is no batch": lambda: Data.from_tensors(
        (*numbers(5, 0), np.ones(2))
    ).map(lambda x, y, z: (x * 2, y)),
    "ragged": ragged,
    "sparse": sparse,
}

IN_LONG_TAIL = {
    "generator",
    "shuffled without a seed",
    "scaled",
    "filtered",
    "concatenate",
    "flat_map",
    "inputs alone",
}
"""Elements that others have, too, after another transformation."""


@cases("size", [3], thorough=(1, 2))
@cases("case", [case for case in READY if case not in IN_LONG_TAIL], thorough=READY)
def test_ranks_share_each_element_as_a_batch(case: str, size: int) -> None:
    assert_ranks_share_serial_batches(READY[case], READY[case], size)


def test_batches_in_files_are_shared(tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "batches.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for x, y in batches():
            both = [tf.io.serialize_tensor(one).numpy() for one in (x, y)]
            writer.write(tf.io.serialize_tensor(tf.constant(both)).numpy())

    def parse(record: tf.Tensor) -> Any:
        x, y = tf.unstack(tf.io.parse_tensor(record, tf.string), 2)
        return (
            tf.ensure_shape(tf.io.parse_tensor(x, tf.float32), [None, 3]),
            tf.ensure_shape(tf.io.parse_tensor(y, tf.int64), [None]),
        )

    def make() -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path).map(parse)

    assert_ranks_share_serial_batches(make, generated, 3)


@pytest.mark.parametrize("case", ["from_tensors", "shuffled", "generator"])
def test_number_of_steps_is_that_of_the_serial_dataset(case: str) -> None:
    dataset = READY[case]()
    assert int(tnt_data.distribute(dataset, 1, 2).cardinality()) == int(dataset.cardinality())


def test_size_of_batches_is_known_where_shapes_tell_it() -> None:
    assert tnt_data.global_batch_size(slices()) == 5
    assert tnt_data.global_batch_size(generated()) is None
    assert tnt_data.is_batched(generated())


def test_micro_batch_size_says_that_elements_are_samples() -> None:
    samples = Data.from_tensor_slices(np.arange(14).reshape(7, 2))
    parts = list(tnt_data.distribute(samples, 1, 3, micro_batch_size=2))
    assert [part.data.numpy().tolist() for part in parts] == [[[2, 3], [8, 9]], [[12, 13]]]
    assert [(int(part.num_local), int(part.num_global)) for part in parts] == [(2, 6), (0, 1)]


def test_fingerprints_of_ready_batches_are_equal_on_all_ranks() -> None:
    of_ranks = [
        [int(part.fingerprint) for part in tnt_data.distribute(slices(), r, 3, fingerprint=True)]
        for r in range(3)
    ]
    assert of_ranks[0] == of_ranks[1] == of_ranks[2]
    assert len(set(of_ranks[0])) == 4


@pytest.mark.parametrize(
    ("targets", "words"), [([[1, 2]], "differ in their number of rows"), ([3], "has no rows")]
)
def test_what_has_no_common_rows_is_named_when_it_is_read(targets: Any, words: str) -> None:
    dataset = Data.from_generator(
        lambda: ((np.ones((3, 2)), target) for target in targets), (tf.float32, tf.int64)
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"{words}.*\.batch\(n\)"):
        list(tnt_data.distribute(dataset, 0, 2))


LIKE_SAMPLES: dict[str, tuple[Any, ...]] = {
    "a picture": (np.ones((2, 8, 8, 3)),),
    "a picture and its mask": (np.ones((2, 8, 8, 3)), np.ones((2, 8, 8, 1))),
    "a sequence and its tags": (np.ones((2, 6)), np.ones((2, 6))),
}
LIKE_BATCHES: dict[str, tuple[Any, ...]] = {
    "inputs and labels": (np.ones((2, 8, 8, 3)), np.ones((2, 8))),
    "inputs and targets": (np.ones((2, 8, 4)), np.ones((2, 8, 2))),
}


@pytest.mark.parametrize("case", [*LIKE_SAMPLES, *LIKE_BATCHES])
def test_only_shapes_of_single_samples_give_a_warning(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = Data.from_tensor_slices((LIKE_SAMPLES | LIKE_BATCHES)[case])
    with caplog.at_level(logging.WARNING, "tnt_data"):
        tnt_data.distribute(dataset, 0, 2)
    warnings = [record.getMessage() for record in caplog.records]
    assert len(warnings) == (case in LIKE_SAMPLES)
    assert all("taken as a batch" in text and ".batch(n)" in text for text in warnings)
