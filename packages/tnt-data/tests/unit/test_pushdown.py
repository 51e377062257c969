"""Functions before the batch run for a rank's own samples only, wherever that is exact."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import PICK, assert_ranks_share_serial_batches, epochs_of_rank

import tnt_data
from tnt_data.plan.split import Way, plan_split
from tnt_data.transformations.read import read_transformations

Data = tf.data.Dataset
Make = Callable[[], tf.data.Dataset]
SEEN: list[int] = []


@pytest.fixture(autouse=True)
def forget_what_was_seen() -> None:
    SEEN.clear()


def remember(x: np.ndarray) -> np.ndarray:
    SEEN.append(int(x))
    return x


def seen(x: tf.Tensor, *others: tf.Tensor) -> Any:
    """Stands for reading and decoding; notes the samples that it is called for."""
    y = tf.ensure_shape(tf.numpy_function(remember, [x], x.dtype), x.shape)
    return (y, *others) if others else y


def read(dataset: tf.data.Dataset, **more: Any) -> tf.data.Dataset:
    return dataset.map(seen, num_parallel_calls=2, **more)


NUMBERS = Data.range(20)
PATHS = Data.from_tensor_slices([f"{i}" for i in range(20)])


def as_number(path: tf.Tensor) -> tf.Tensor:
    return tf.strings.to_number(path, tf.int64)


MOVED: dict[str, Make] = {
    "map": lambda: read(NUMBERS).batch(6),
    "dropped remainder": lambda: read(NUMBERS).batch(6, drop_remainder=True),
    "batch in parallel": lambda: read(NUMBERS).batch(6, num_parallel_calls=2),
    "padded_batch": lambda: read(NUMBERS).padded_batch(6),
    "ragged_batch": lambda: read(NUMBERS).map(tf.range).ragged_batch(6),
    "unknown shape": lambda: read(NUMBERS).map(lambda x: tf.fill([2 + 0 * x], x)).batch(6),
    "more maps": lambda: read(NUMBERS.map(abs)).map(abs).batch(6),
    "map without order": lambda: read(NUMBERS, deterministic=False).batch(6),
    "shuffle before": lambda: read(NUMBERS.shuffle(9, seed=1)).batch(6),
    "unseeded random numbers": lambda: read(NUMBERS).map(
        lambda x: (x, tf.random.uniform([]))
    ).map(lambda x, _: x).batch(6),
    "filter before": lambda: read(NUMBERS.filter(lambda x: x % 3 > 0)).batch(6),
    "unbatch before": lambda: read(NUMBERS.batch(3).unbatch()).batch(6),
    "prefetch and options after": lambda: read(NUMBERS).prefetch(2).with_options(
        tf.data.Options()
    ).batch(6),
    "cache after": lambda: read(NUMBERS).cache().batch(6),
    "shuffle after": lambda: read(NUMBERS).shuffle(9, seed=1).batch(6),
    "shuffle after larger elements": lambda: read(
        PATHS.map(lambda path: path).map(as_number)
    ).shuffle(9, seed=1).batch(6),
    "take after": lambda: read(NUMBERS).take(13).batch(6),
    "skip after": lambda: read(NUMBERS).skip(3).batch(6),
    "shard after": lambda: read(NUMBERS).shard(2, 1).batch(6),
    "repeat after": lambda: read(NUMBERS).repeat(2).batch(6),
    "enumerate after": lambda: read(NUMBERS).enumerate().batch(6),
    "zip after": lambda: Data.zip(
        {"x": read(NUMBERS), "y": (NUMBERS.shuffle(4, seed=3),)}
    ).batch(6),
    "zip of zips": lambda: Data.zip(
        (Data.zip((NUMBERS.map(abs), read(NUMBERS.repeat()))).map(lambda a, b: (b, a)), NUMBERS)
    ).shuffle(9, seed=1).batch(6),
    "pairs": lambda: read(NUMBERS).batch(2).map(lambda x: x + 1).batch(3),
    "pairs, odd one out": lambda: read(NUMBERS.take(19)).batch(2).batch(3).take(3),
    "pairs of pairs": lambda: read(NUMBERS).batch(2, drop_remainder=True).cache().batch(2).batch(2),
    "transformations after the batch": lambda: read(NUMBERS).batch(6).cache().repeat(2).prefetch(1),
}  # fmt: skip


SHORT = {
    "padded_batch",
    "unknown shape",
    "filter before",
    "cache after",
    "shuffle after larger elements",
    "skip after",
    "zip of zips",
    "pairs, odd one out",
    "transformations after the batch",
}
"""Pipelines that are read in the short run: batches, what is before and what is after reading."""


@pytest.mark.parametrize("case", MOVED)
def test_reading_is_planned_for_the_samples_of_a_rank(case: str) -> None:
    plan = plan_split(read_transformations(MOVED[case]()), 2)
    assert plan.way is Way.PICK
    assert [moved.transformation.text for moved in plan.pushdown.moved].count("map(seen)") == 1


@cases("case", [case for case in MOVED if case in SHORT], thorough=MOVED)
def test_samples_of_other_ranks_are_not_read(case: str) -> None:
    make = MOVED[case]
    num_steps, num_read = len(list(make())), len(SEEN)
    by_rank = [len(samples_read(make, rank, 2)) for rank in range(2)]
    duplicates = 4 * num_steps  # the largest row has four samples
    assert max(by_rank) < num_read
    assert sum(by_rank) <= num_read + duplicates
    assert_ranks_share_serial_batches(make, make, 3, way=PICK, epochs=2)


def samples_read(make: Make, rank: int, size: int) -> list[int]:
    SEEN.clear()
    epochs_of_rank(make, rank, size, way=PICK)
    return list(SEEN)


def test_each_sample_is_read_by_exactly_one_rank() -> None:
    def make() -> tf.data.Dataset:
        return read(NUMBERS.shuffle(20)).batch(4)

    by_rank = [sorted(samples_read(make, rank, 4)) for rank in range(4)]
    assert sorted(x for samples in by_rank for x in samples) == list(range(20))
    assert [len(samples) for samples in by_rank] == [5] * 4


KEPT: dict[str, tuple[Make, str]] = {
    "seeded random numbers": (
        lambda: NUMBERS.map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64, seed=1)).batch(4),
        "draws seeded random numbers",
    ),
    "variable": (
        lambda: NUMBERS.map(lambda x: x + COUNTER.assign_add(1)).batch(4),
        "changes state, such as variables",
    ),
    "Python in order": (lambda: NUMBERS.map(seen).batch(4), "Python code that is called for one"),
    "file of a cache": (
        lambda: read(NUMBERS).cache("/nowhere/at/all").batch(4),
        "its file may hold all samples",
    ),
    "cache before a repeat": (
        lambda: read(NUMBERS).cache().repeat(2).batch(4),
        "what it stores is rearranged",
    ),
    "memory": (
        lambda: NUMBERS.map(lambda x: tf.cast(x, tf.int8)).shuffle(9, seed=1).batch(4),
        "may take more memory",
    ),
    "records": (
        lambda: tf.data.TFRecordDataset("nowhere").map(tf.strings.length).shuffle(9).batch(4),
        "may take more memory",
    ),
    "shared branches": (
        lambda: (lambda d: Data.zip((d, d.map(abs))).batch(4))(read(NUMBERS)),
        "transformations in common",
    ),
    "concatenate": (lambda: read(NUMBERS).concatenate(NUMBERS).batch(4), "which branch"),
    "scan": (
        lambda: read(NUMBERS).scan(tf.constant(0, tf.int64), lambda s, x: (s + x, s)).batch(4),
        "not make one sample out of each",
    ),
    "short pairs rearranged": (
        lambda: read(NUMBERS).batch(2).repeat(2).batch(4),
        "its batches are rearranged",
    ),
}
COUNTER = tf.Variable(0, dtype=tf.int64)


@pytest.mark.parametrize("case", KEPT)
def test_transformation_that_cannot_be_moved_is_kept_and_the_reason_is_told(case: str) -> None:
    make, reason = KEPT[case]
    plan = plan_split(read_transformations(make()), 2)
    assert not plan.pushdown.saves_work
    assert any(reason in limit for _, limit in plan.pushdown.limits)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NUMBERS.map(lambda x: x + tf.random.uniform([], 0, 9, tf.int64, seed=1)).batch(6),
        lambda: NUMBERS.map(lambda x: tf.random.stateless_uniform([2], tf.stack([x, 1]))).batch(6),
        lambda: NUMBERS.shuffle(7, seed=1).map(lambda x: x + 1).repeat(3).batch(7),
        lambda: NUMBERS.shuffle(7, seed=1).map(lambda x: x).repeat(3).batch(7),
        lambda: NUMBERS.shuffle(7, seed=1).map(lambda x: -x).take(-1).repeat(3).batch(7),
    ],
    ids=["seeded", "stateless", "shuffle, map, repeat", "map without effect", "take of all"],
)
def test_numbers_and_orders_are_those_of_the_serial_run(make: Make) -> None:
    assert_ranks_share_serial_batches(make, make, 3, way=PICK, epochs=3)


def test_cache_on_disk_is_filled_with_all_samples_and_read_again(tmp_path: Path) -> None:
    def make() -> tf.data.Dataset:
        return read(NUMBERS).cache(str(tmp_path / "cache")).batch(6)

    first = [samples_read(make, rank, 2) for rank in range(2)]
    assert [sorted(samples) for samples in first] == [list(range(20))] * 2
    assert [samples_read(make, rank, 2) for rank in range(2)] == [[], []]
    assert {path.name.split(".rank")[1][:4] for path in tmp_path.iterdir()} == {"0of2", "1of2"}


def test_cache_in_memory_holds_samples_of_this_rank_only() -> None:
    def make() -> tf.data.Dataset:
        return read(NUMBERS.shuffle(20, seed=4)).cache().batch(4)

    dataset = tnt_data.distribute(make(), 1, 2)
    first, second = ([x for step in dataset for x in step.data.numpy()] for _ in range(2))
    assert first == second
    assert len(SEEN) == 10


def test_functions_are_not_traced_again_when_they_are_moved() -> None:
    calls = []

    def double(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return 2 * x

    dataset = Data.zip((NUMBERS.map(double), NUMBERS)).map(lambda a, b: (b, a)).batch(4)
    traced = len(calls)
    for x, y in (step.data for step in tnt_data.distribute(dataset, 1, 3)):
        assert y.numpy().tolist() == (2 * x).numpy().tolist()
    assert len(calls) == traced


def test_errors_of_functions_reach_the_user() -> None:
    dataset = NUMBERS.map(lambda x: tf.debugging.check_numerics(1 / (x - 7), "seven")).batch(4)
    with pytest.raises(tf.errors.InvalidArgumentError, match="seven"):
        list(tnt_data.distribute(dataset, 1, 2))


REPEATED: dict[str, tuple[Make, str]] = {
    "after the batch": (
        lambda: NUMBERS.batch(4).map(lambda x: x[::-1]),
        "since map(<lambda>) comes after the batch and may mix the samples of a batch",
    ),
    "before a filter": (
        lambda: NUMBERS.map(abs).filter(lambda x: x > 2).batch(4),
        "map(abs) for all samples, since filter(<lambda>): it does not make one sample out of each",
    ),
    "padding": (lambda: NUMBERS.map(tf.range).padded_batch(4), "the padding of padded_batch(4)"),
}


@pytest.mark.parametrize("case", REPEATED)
def test_functions_that_every_rank_runs_for_all_samples_are_reported(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, reason = REPEATED[case]
    with caplog.at_level(logging.WARNING, "tnt_data"):
        tnt_data.distribute(make(), 0, 1)
        tnt_data.distribute(read(NUMBERS).batch(4), 0, 2)
        assert not caplog.records
        tnt_data.distribute(make(), 0, 2)
    (record,) = caplog.records
    assert reason in record.getMessage()
