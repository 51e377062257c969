"""Functions after the batch run after the split if they are known to treat each row alone."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import PICK, assert_ranks_share_serial_batches

from tnt_data.plan.split import plan_split
from tnt_data.transformations.read import read_transformations

Data = tf.data.Dataset
MEAN = tf.Variable([0.5, 1.5, 2.5])
NAMES = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(tf.range(20, dtype=tf.int64), tf.range(20) * 3), -1
)
TABLE = tf.reshape(tf.range(60), [20, 3])


def images_and_labels(drop_remainder: bool = False) -> tf.data.Dataset:
    """Batches `(image [b, 4, 5, 3] of uint8, label [b] of int64)`."""

    def image(x: tf.Tensor) -> tf.Tensor:
        return tf.cast(tf.reshape(tf.range(60), [4, 5, 3]) * tf.cast(x, tf.int32) % 251, tf.uint8)

    samples = Data.range(20).map(lambda x: (image(x), x))
    return samples.batch(6, drop_remainder=drop_remainder)


def scaled(image: tf.Tensor) -> tf.Tensor:
    return tf.cast(image, tf.float32) / 255.0


ROW_WISE: dict[str, Callable[..., Any]] = {
    "scale": lambda image, label: (scaled(image), label),
    "normalise": lambda image, label: ((scaled(image) - [0.4, 0.5, 0.6]) / [0.1, 0.2, 0.3], label),
    "variable": lambda image, label: (scaled(image) - MEAN, label),
    "one hot": lambda image, label: {"x": image, "y": tf.one_hot(label, 20)},
    "flatten": lambda image, label: (tf.reshape(image, [-1, 60]), label),
    "transpose": lambda image, label: (tf.transpose(image, [0, 3, 1, 2]), label),
    "crop": lambda image, label: (image[:, 1:3, ::2, :], label[..., tf.newaxis]),
    "channel": lambda image, label: (image[..., 0], label),
    "resize": lambda image, label: (tf.image.resize(image, [8, 8]), label),
    "stack": lambda image, label: (tf.stack([label, -label], axis=1), label),
    "concat": lambda image, label: (tf.concat([image, image], axis=-1), label),
    "expand": lambda image, label: (tf.expand_dims(image, -1), tf.expand_dims(label, 1)),
    "squeeze": lambda image, label: tf.squeeze(tf.expand_dims(label, 1), 1),
    "lookup": lambda image, label: (image, NAMES.lookup(label)),
    "gather from a table": lambda image, label: (tf.gather(TABLE, label), label),
    "compare": lambda image, label: tf.where(label > 3, label, tf.constant(0, tf.int64)),
    "maximum of each": lambda image, label: (tf.reduce_max(image, axis=[1, 2, 3]), label),
    "index of maximum": lambda image, label: tf.argmax(tf.one_hot(label, 20), axis=-1),
    "divide by the number of rows": lambda image, label: label // (image.shape[0] or 6),
    "columns of all": lambda image, label: label + tf.constant([7], tf.int64),
}


SHORT = [
    ("normalise", False),
    ("flatten", True),
    ("divide by the number of rows", True),
    ("resize", False),
    ("lookup", False),
]
"""Functions that run in the short run, and whether the number of rows is known in their graph."""


def _mapped(case: str, drop_remainder: bool) -> tf.data.Dataset:
    return images_and_labels(drop_remainder).map(ROW_WISE[case], num_parallel_calls=2)


@pytest.mark.parametrize("drop_remainder", [False, True], ids=["all", "drop"])
@pytest.mark.parametrize("case", ROW_WISE)
def test_function_that_treats_each_row_alone_follows_the_split(
    case: str, drop_remainder: bool
) -> None:
    plan = plan_split(read_transformations(_mapped(case, drop_remainder)), 2)
    assert [one.name for one in plan.chain] == ["map", "batch"]


def _with_id(case: str, drop_remainder: bool) -> Any:
    return pytest.param(case, drop_remainder, id=f"{case}-{'drop' if drop_remainder else 'all'}")


@cases(
    ("case", "drop_remainder"),
    itertools.starmap(_with_id, SHORT),
    thorough=itertools.starmap(_with_id, itertools.product(ROW_WISE, [False, True])),
)
def test_function_that_treats_each_row_alone_runs_on_micro_batches(
    case: str, drop_remainder: bool
) -> None:
    def make() -> tf.data.Dataset:
        return _mapped(case, drop_remainder)

    assert_ranks_share_serial_batches(make, make, 4, way=PICK)


MIXING: dict[str, Callable[..., Any]] = {
    "mean of the batch": lambda image, label: scaled(image) - tf.reduce_mean(scaled(image)),
    "mean over rows": lambda image, label: label - tf.reduce_max(label, axis=0),
    "all in one": lambda image, label: label - tf.reduce_max(label),
    "reverse": lambda image, label: (image[::-1], label),
    "some rows": lambda image, label: label[1:],
    "one row": lambda image, label: label[0] + label,
    "mixup": lambda image, label: scaled(image) + tf.roll(scaled(image), 1, axis=0),
    "gather": lambda image, label: tf.gather(label, [0, 0]),
    "number of rows": lambda image, label: label + tf.shape(label, tf.int64)[0],
    "twice": lambda image, label: tf.concat([label, label], 0),
    "stacked first": lambda image, label: tf.stack([label, label]),
    "first axis last": lambda image, label: tf.transpose(image),
    "shape lost": lambda image, label: tf.reshape(image, [-1]),
    "rows against columns": lambda image, label: label + tf.cast(image[:, 0, 0, 0], tf.int64)[None],
    "wrong axes": lambda image, label: tf.cast(image[0, 0], tf.int64) + label[:3],
    "one row of all": lambda image, label: label + tf.range(6, dtype=tf.int64)[: tf.size(label)],
    "sum": lambda image, label: tf.reduce_sum(scaled(image), axis=[1, 2, 3]),
    "exp": lambda image, label: tf.exp(scaled(image)),
    "random": lambda image, label: scaled(image) + tf.random.uniform([]),
    "condition": lambda image, label: tf.cond(tf.size(label) > 3, lambda: label, lambda: -label),
    "call": lambda image, label: tf.function(lambda x: x + 1)(label),
    "constant rows": lambda image, label: (label, tf.range(3)),
    "axis squeezed if there is one": lambda image, label: tf.squeeze(tf.expand_dims(label, 0)),
}


@pytest.mark.parametrize("case", MIXING)
def test_function_that_may_mix_rows_sees_whole_batches(case: str) -> None:
    dataset = images_and_labels().map(MIXING[case])
    assert [one.name for one in plan_split(read_transformations(dataset), 2).chain] == ["map"]


@pytest.mark.parametrize(
    "case", ["mean of the batch", "mixup", "reverse", "number of rows", "sum", "exp"]
)
def test_function_that_mixes_rows_gives_the_serial_result(case: str) -> None:
    def make() -> tf.data.Dataset:
        return images_and_labels().map(MIXING[case])

    assert_ranks_share_serial_batches(make, make, 3, way=PICK)


def test_several_functions_and_transformations_after_the_batch_follow_the_split() -> None:
    def make() -> tf.data.Dataset:
        dataset = images_and_labels().map(ROW_WISE["scale"]).cache()
        return dataset.map(ROW_WISE["one hot"]).repeat(2).prefetch(1)

    plan = plan_split(read_transformations(make()), 2)
    assert len(plan.chain) == 6
    assert plan.pushdown.saves_work
    assert_ranks_share_serial_batches(make, make, 3, way=PICK, epochs=2)


def test_numbers_beside_the_batch_are_the_same_for_all_rows() -> None:
    def make() -> tf.data.Dataset:
        return images_and_labels().enumerate().map(lambda i, data: (data[1] + i, i))

    assert_ranks_share_serial_batches(make, make, 3, way=PICK)
