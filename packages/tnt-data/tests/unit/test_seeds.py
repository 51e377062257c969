"""Shuffles: the same order on all ranks, at any number of ranks, over several epochs."""

from __future__ import annotations

import functools
import logging
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from cases import cases
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches, epochs_of_rank

import tnt_data
from tnt_data.description.rank_differences import find_differences
from tnt_data.transformations.read import read_transformations

Data = tf.data.Dataset


@pytest.fixture(autouse=True)
def no_global_seed() -> Iterator[None]:
    tf.random.set_seed(None)
    yield
    tf.random.set_seed(None)


def order(dataset: tf.data.Dataset) -> list[int]:
    return [int(x) for micro_batch in dataset for x in micro_batch.data]


def joined_order(make: Any, size: int, way: int) -> list[int]:
    """Samples in the order of the serial run, put together from the parts of all ranks."""
    steps = zip(*(epochs_of_rank(make, r, size, way=way)[0] for r in range(size)), strict=True)
    joined = []
    for parts in steps:
        rows = [(i * size + r, x) for r, p in enumerate(parts) for i, x in enumerate(p.data)]
        joined += [int(x) for position, x in sorted(rows) if position < parts[0].num_global]
    return joined


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["pick", "slice"])
def test_order_is_the_same_at_any_number_of_ranks(way: int) -> None:
    def make() -> tf.data.Dataset:
        return Data.range(29).shuffle(10).batch(6)

    serial = [int(x) for batch in Data.range(29).shuffle(10, seed=42).batch(6) for x in batch]
    assert [joined_order(make, size, way) for size in (1, 2, 3, 5, 8)] == [serial] * 5


def test_given_seed_is_used_for_shuffles_without_one() -> None:
    got = order(tnt_data.distribute(Data.range(9).shuffle(9).batch(3), 0, 1, seed=7))
    assert got == [int(x) for x in Data.range(9).shuffle(9, seed=7)]
    assert got != [int(x) for x in Data.range(9).shuffle(9, seed=42)]


@pytest.mark.parametrize("seed", [0, 5])
def test_seed_of_the_user_is_kept(seed: int) -> None:
    dataset = Data.range(9).shuffle(9, seed=seed).shuffle(4)
    expected = Data.range(9).shuffle(9, seed=seed).shuffle(4, seed=42)
    assert order(tnt_data.distribute(dataset.batch(4), 0, 1)) == [int(x) for x in expected]


def test_global_seed_set_after_the_pipeline_changes_nothing() -> None:
    dataset = Data.range(9).shuffle(9).shuffle(5, seed=3).batch(4)
    expected = [int(x) for x in Data.range(9).shuffle(9, seed=42).shuffle(5, seed=3)]
    tf.random.set_seed(1234)
    assert order(tnt_data.distribute(dataset, 0, 1)) == expected


def test_distributing_does_not_disturb_the_random_numbers_of_the_user() -> None:
    def draw(distribute: bool) -> float:
        tf.random.set_seed(5)
        dataset = Data.range(9).shuffle(9).batch(4)
        if distribute:
            tnt_data.distribute(dataset, 0, 2)
        return float(tf.random.uniform([]))

    assert draw(distribute=True) == draw(distribute=False)


def test_zipped_shuffles_stay_independent_of_each_other() -> None:
    numbers = Data.range(50)
    dataset = Data.zip((numbers.shuffle(50), numbers.shuffle(50))).batch(50)
    (micro_batch,) = tnt_data.distribute(dataset, 0, 1)
    left, right = (component.numpy().tolist() for component in micro_batch.data)
    assert sorted(left) == sorted(right)
    assert left != right


def test_same_arguments_give_the_same_object_which_goes_on_shuffling() -> None:
    dataset = Data.range(20).shuffle(20).batch(4)
    serial = Data.range(20).shuffle(20, seed=42).batch(4)
    expected = [[int(x) for batch in serial for x in batch] for _ in range(2)]
    got = [order(tnt_data.distribute(dataset, 0, 1)) for _ in range(2)]
    assert got == expected
    assert got[0] != got[1]
    assert tnt_data.distribute(dataset, 0, 1) is not tnt_data.distribute(dataset, 0, 1, seed=1)


def test_functions_of_the_user_are_not_traced_again() -> None:
    calls = []

    def double(x: tf.Tensor) -> tf.Tensor:
        calls.append(1)
        return 2 * x

    dataset = Data.range(6).shuffle(6).map(double).batch(4)
    traced = len(calls)
    assert sorted(order(tnt_data.distribute(dataset, 0, 1))) == [0, 2, 4, 6, 8, 10]
    assert len(calls) == traced


INSIDE: dict[str, Callable[[Any], tf.data.Dataset]] = {
    "flat_map": lambda f: Data.range(4).flat_map(f),
    "interleave": lambda f: Data.range(4).interleave(f, cycle_length=2, block_length=2),
    "interleave in parallel": lambda f: Data.range(4).interleave(
        f, cycle_length=2, num_parallel_calls=2
    ),
    "interleave after a shuffle": lambda f: Data.range(4).shuffle(4).interleave(f, cycle_length=2),
}


@cases("case", [case for case in INSIDE if case != "interleave"], thorough=INSIDE)
def test_shuffles_inside_of_functions_are_seeded(case: str) -> None:
    def make() -> tf.data.Dataset:
        return INSIDE[case](
            lambda x: Data.range(6).map(lambda y: 10 * x + y).shuffle(6).shuffle(3)
        ).batch(5)

    def make_serial() -> tf.data.Dataset:
        return tnt_data.distribute(make(), 0, 1).map(lambda micro_batch: micro_batch.data)

    assert_ranks_share_serial_batches(make, make_serial, 3, epochs=2)


def test_shuffles_inside_of_functions_differ_between_calls_and_passes() -> None:
    dataset = Data.range(4).flat_map(lambda _: Data.range(20).shuffle(20)).batch(20)
    distributed = tnt_data.distribute(dataset, 0, 1)
    orders = [tuple(step.data.numpy()) for _ in range(2) for step in distributed]
    assert len(set(orders)) == 8
    assert all(sorted(order) == list(range(20)) for order in orders)


def test_two_shuffles_inside_of_one_function_differ() -> None:
    dataset = Data.range(1).flat_map(
        lambda _: Data.zip((Data.range(20).shuffle(20), Data.range(20).shuffle(20)))
    )
    (micro_batch,) = tnt_data.distribute(dataset.batch(20), 0, 1)
    left, right = (component.numpy().tolist() for component in micro_batch.data)
    assert sorted(left) == sorted(right)
    assert left != right


def test_shuffles_in_functions_of_functions_are_seeded() -> None:
    def inner(x: tf.Tensor) -> tf.data.Dataset:
        return Data.range(2).flat_map(lambda y: Data.range(9).map(lambda z: x + z).shuffle(9))

    def order_in_a_process() -> list[int]:
        return order(tnt_data.distribute(Data.range(2).flat_map(inner).batch(9), 0, 1))

    assert order_in_a_process() == order_in_a_process() != sorted(order_in_a_process())


def test_ranks_draw_their_own_random_numbers_after_the_pick() -> None:
    def make() -> tf.data.Dataset:
        return (
            Data.range(8)
            .map(lambda x: (x, tf.random.uniform([], seed=3)), num_parallel_calls=1)
            .map(lambda x, y: (x, y), num_parallel_calls=2)
        )

    parallel = Data.range(8).map(lambda x: (x, tf.random.uniform([], seed=3)), num_parallel_calls=2)
    drawn = []
    for rank in range(2):
        steps = list(tnt_data.distribute(parallel.batch(4), rank, 2))
        assert [x.numpy().tolist() for x, _ in (s.data for s in steps)] == [
            [rank, rank + 2],
            [rank + 4, rank + 6],
        ]
        drawn += [float(y) for s in steps for y in s.data[1]]
    assert len(set(drawn)) == 8
    assert_ranks_share_serial_batches(lambda: make().batch(4), lambda: make().batch(4), 2)


def noise() -> Any:
    return np.random.random(3)


def calls_noise() -> Iterator[Any]:
    yield from noise()


def seeds_noise() -> Iterator[Any]:
    np.random.seed(3)
    yield from noise()


def draws_and_calls_what_seeds_its_own() -> Iterator[Any]:
    yield from np.random.permutation(len(own_seed()))


def own_seed() -> Any:
    return np.random.default_rng(0).normal(size=3)


GENERATORS: dict[str, tuple[Any, bool]] = {
    "called": (calls_noise, True),
    "called, seeded": (seeds_noise, False),
    "beside a seed": (draws_and_calls_what_seeds_its_own, True),
    "random": (lambda: iter([random.random()]), True),
    "numpy": (lambda: (x for x in np.random.permutation(3)), True),
    "seeded": (lambda: iter(np.random.default_rng(0).permutation(3)), False),
    "no random numbers": (lambda: iter(range(3)), False),
    "partial": (functools.partial(lambda n: iter([random.randint(0, n)]), 3), True),
    "object": (type("Source", (), {"__call__": lambda self: iter([random.random()])})(), True),
    "built in": (list, False),
}


@pytest.mark.parametrize("case", GENERATORS)
def test_generators_that_draw_random_numbers_are_recognised(case: str) -> None:
    generator, draws = GENERATORS[case]
    dataset = Data.from_generator(generator, output_signature=tf.TensorSpec([], tf.float32))
    assert bool(find_differences(read_transformations(dataset.batch(2)), 2)) == draws


def add_noise(x: np.ndarray) -> np.ndarray:
    return x + noise()[0]


def add_own_noise(x: np.ndarray) -> np.ndarray:
    return x + own_seed()[0]


@pytest.mark.parametrize("call", [tf.numpy_function, tf.py_function])
@pytest.mark.parametrize(
    ("function", "num_parallel_calls", "differs"),
    [(add_noise, None, True), (add_noise, 2, False), (add_own_noise, None, False)],
)
def test_maps_by_python_code_that_draws_in_order_are_recognised(
    call: Any, function: Any, num_parallel_calls: int | None, differs: bool
) -> None:
    numbers = Data.range(6).map(lambda x: tf.cast(x, tf.float64))
    drawn = numbers.map(lambda x: call(function, [x], x.dtype), num_parallel_calls)
    assert bool(tnt_data.Pipeline(drawn.batch(2)).find_differences(2)) is differs


class Augmentation:
    def __init__(self, seed: int | None) -> None:
        self.rng = np.random.default_rng(seed)

    def drawn_anew(self) -> Any:
        return self.rng.normal()

    def batches(self) -> Iterator[Any]:
        yield self.drawn_anew()


def draw_by(draw: Callable[..., Any]) -> Iterator[Any]:
    yield draw()


def read_from(batches: Iterator[Any]) -> Iterator[Any]:
    return (batch for batch in batches)


def make_a_generator() -> Iterator[Any]:
    rng = np.random.default_rng()
    yield rng.normal()


def make_one_with_none() -> Iterator[Any]:
    yield np.random.RandomState(seed=None).normal()


def make_one_with_a_seed(seed: int = 3) -> Iterator[Any]:
    yield np.random.default_rng(seed).normal()


def sample_without_a_seed(tables: Any = ()) -> Iterator[Any]:
    yield from (table.sample(2, random_state=None) for table in tables)


class Settings:
    seed = 3


def read_a_seed() -> Iterator[Any]:
    yield Settings.seed + np.random.rand()


def draw_by_default(rng: Any = np.random.default_rng()) -> Any:  # noqa: B008
    return rng.normal()


class Flip:
    def __call__(self) -> Any:
        return np.random.rand()


class Augmentations:
    def __init__(self, *augmentations: Any) -> None:
        self.augmentations = list(augmentations)

    def batches(self) -> Iterator[Any]:
        for augmentation in self.augmentations:
            yield augmentation()


KNOWN_GENERATORS: dict[str, tuple[Callable[[], Iterator[Any]], bool]] = {
    "a generator of NumPy": (lambda: draw_by(np.random.default_rng().normal), True),
    "a generator of NumPy with a seed": (lambda: draw_by(np.random.default_rng(3).normal), False),
    "an old generator": (lambda: draw_by(np.random.RandomState().normal), True),
    "an old generator with a seed": (lambda: draw_by(np.random.RandomState(3).normal), False),
    "the common generator": (lambda: draw_by(np.random.normal), True),
    "one of Python, which does not tell": (lambda: draw_by(random.Random(3).random), True),
    "a method": (Augmentation(None).batches, True),
    "a method with a seed": (Augmentation(3).batches, False),
    "a generator expression": (lambda: read_from(draw_by(np.random.normal)), True),
    "an expression without draws": (lambda: read_from(draw_by(dict)), False),
    "pandas": (lambda: (table.sample(2) for table in ()), True),
    "pandas with a seed": (lambda: (table.sample(2, random_state=3) for table in ()), False),
    "pandas with no seed": (sample_without_a_seed, True),
    "made in the code": (make_a_generator, True),
    "made in the code with None": (make_one_with_none, True),
    "made in the code with a seed": (make_one_with_a_seed, False),
    "beside a name of a seed": (read_a_seed, True),
    "a default": (lambda: draw_by(draw_by_default), True),
    "in a list": (Augmentations(draw_by_default).batches, True),
    "an object in a list": (Augmentations(Flip()).batches, True),
    "a list without draws": (Augmentations(dict, Settings).batches, False),
    "SciPy": (lambda: (normal.rvs(size=2) for normal in ()), True),
}


@pytest.mark.parametrize("case", KNOWN_GENERATORS)
def test_generators_that_nothing_has_seeded_are_found_where_code_knows_them(case: str) -> None:
    make, draws = KNOWN_GENERATORS[case]
    assert tnt_data.draws_random_numbers(make()) is draws


@pytest.mark.parametrize("reader", ["TextLineDataset", "TFRecordDataset"])
@pytest.mark.parametrize("num_parallel_reads", [None, 2])
def test_shuffled_file_names_are_seeded_through_a_reader(
    tmp_path: Path, reader: str, num_parallel_reads: int | None
) -> None:
    for number in range(4):
        lines = [f"{number}-{line}" for line in range(3)]
        if reader == "TFRecordDataset":
            with tf.io.TFRecordWriter(str(tmp_path / str(number))) as writer:
                for line in lines:
                    writer.write(line)
        else:
            (tmp_path / str(number)).write_text("\n".join(lines))

    def make(seed: int | None) -> tf.data.Dataset:
        files = Data.list_files(str(tmp_path / "*"), seed=seed)
        lines = getattr(tf.data, reader)(files, num_parallel_reads=num_parallel_reads)
        return lines.batch(5)

    assert_ranks_share_serial_batches(lambda: make(None), lambda: make(42), 2, epochs=2)


def same(x: Any) -> Any:
    return x


def shuffled_numbers() -> Iterator[int]:
    yield from np.random.permutation(9)


WARNINGS: dict[str, tuple[Callable[[], tf.data.Dataset], str]] = {
    "shuffle inside a function": (
        lambda: Data.range(9).group_by_window(
            lambda x: x % 2, lambda _, w: w.shuffle(3).batch(4), 4
        ),
        r"functions of group_by_window\(\) shuffle without a seed",
    ),
    "shuffle of windows": (
        lambda: Data.range(9).window(3).map(lambda w: w.shuffle(3)).flat_map(lambda w: w).batch(4),
        r"functions of map\(.*\) shuffle without a seed",
    ),
    "generator with random numbers": (
        lambda: Data.from_generator(
            shuffled_numbers, output_signature=tf.TensorSpec([], tf.int64)
        ).batch(4),
        r"Python code of from_generator\(shuffled_numbers\) draws random numbers",
    ),
    "filter by random numbers drawn before": (
        lambda: (
            Data.range(9)
            .map(lambda x: (x, tf.random.uniform([])))
            .filter(lambda _, y: y < 0.5)
            .batch(4)
        ),
        r"filter\(.*\) may decide with the random numbers of map",
    ),
    "filter by random numbers that race": (
        lambda: (
            Data.range(9)
            .map(lambda x: (x, tf.random.uniform([], seed=1)), num_parallel_calls=2)
            .filter(lambda _, y: y < 0.5)
            .batch(4)
        ),
        r"filter\(.*\) may decide with the random numbers of map",
    ),
    "rejection_resample": (
        lambda: Data.range(9).rejection_resample(lambda x: x % 2, [0.5, 0.5]).batch(4),
        r"decides with random numbers",
    ),
    "batch permuted at random": (
        lambda: Data.range(9).batch(4).map(tf.random.shuffle),
        r"map\(.*\) permutes whole batches with random numbers",
    ),
    "shuffle before a transformation that cannot be rebuilt": (
        lambda: (
            Data.range(9).shuffle(3).apply(tf.data.experimental.copy_to_device("/cpu:0")).batch(4)
        ),
        r"shuffle\(3\) has no seed and cannot be rebuilt",
    ),
    "filter at random": (
        lambda: Data.range(9).filter(lambda _: tf.random.uniform([]) < 0.5).batch(4),
        r"filter\(.*\) decides with random numbers without a seed",
    ),
    "interleave by cores": (
        lambda: Data.range(3).interleave(lambda _: Data.range(2)).batch(4),
        r"order of interleave\(\) depends on the number of cores",
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_what_cannot_be_made_equal_is_reported_once_and_by_name(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    make, text = WARNINGS[case]
    dataset = make()
    with caplog.at_level(logging.WARNING, "tnt_data"):
        tnt_data.distribute(dataset, 1, 2)
    (record,) = [one for one in caplog.records if "different orders" in one.getMessage()]
    assert record.levelno == logging.WARNING
    assert "rank 1 of 2" in record.getMessage()
    assert re.search(text, record.getMessage())


def test_pipeline_with_seeds_only_gives_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tnt_data"):
        tnt_data.distribute(Data.range(9).shuffle(3).map(lambda x: x).batch(4).prefetch(1), 0, 2)
    assert not caplog.records


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["pick", "slice"])
def test_transformations_that_give_up_the_order_are_made_deterministic(way: int) -> None:
    def slow_for_even_numbers(x: tf.Tensor) -> tf.Tensor:
        loops = tf.where(x % 2 == 0, tf.constant(20000, tf.int64), tf.constant(1, tf.int64))
        return x + 0 * tf.reduce_sum(tf.range(loops))

    def make() -> tf.data.Dataset:
        dataset = Data.range(40).map(
            slow_for_even_numbers, num_parallel_calls=4, deterministic=False
        )
        dataset = dataset.interleave(
            Data.from_tensors, cycle_length=4, num_parallel_calls=4, deterministic=False
        )
        options = tf.data.Options()
        options.deterministic = False
        return dataset.batch(6, num_parallel_calls=2, deterministic=False).with_options(options)

    assert_ranks_share_serial_batches(make, lambda: Data.range(40).batch(6), 3, way=way)
