"""Functions that draw other random numbers in another run are named, with place and remedy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches

import tnt_data
from tnt_data import Pipeline

Data = tf.data.Dataset
HERE = __file__


def unseeded(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32) + tf.random.normal([])


def seeded(x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x, tf.float32) + tf.random.normal([], seed=3)


def by_numpy(x: tf.Tensor) -> tf.Tensor:
    return tf.numpy_function(lambda y: y + np.random.normal(), [x], tf.float64)


def with_generator(**options: Any) -> Callable[[], tf.data.Dataset]:
    def make() -> tf.data.Dataset:
        generator = tf.random.Generator.from_seed(3)

        def noisy(x: tf.Tensor) -> tf.Tensor:
            return tf.cast(x, tf.float32) + generator.normal([])

        return Data.range(9).map(noisy, **options).batch(4)

    return make


def with_count(count: tf.Tensor, x: tf.Tensor) -> Any:
    return count + 1, tf.random.uniform([])


def drawn() -> Iterator[float]:
    yield np.random.normal()


PARALLEL = {"num_parallel_calls": 2}
SPEC = tf.TensorSpec([], tf.float64)
WITHOUT_SEED = "draws random numbers without a seed"
CERTAIN: dict[str, tuple[Callable[[], tf.data.Dataset], Callable[..., Any], str]] = {
    "unseeded": (lambda: Data.range(9).map(unseeded).batch(4), unseeded, WITHOUT_SEED),
    "after the batch": (lambda: Data.range(9).batch(4).map(unseeded), unseeded, WITHOUT_SEED),
    "numpy": (lambda: Data.range(9).map(by_numpy, **PARALLEL).batch(4), by_numpy, WITHOUT_SEED),
    "generator of Python": (
        lambda: Data.from_generator(drawn, output_signature=SPEC).batch(4),
        drawn,
        WITHOUT_SEED,
    ),
    "scan": (
        lambda: Data.range(9).scan(tf.constant(0), with_count).batch(4),
        with_count,
        WITHOUT_SEED,
    ),
    "parallel": (
        lambda: Data.range(9).map(seeded, **PARALLEL).batch(4),
        seeded,
        "draws seeded random numbers in parallel calls, which overtake each other",
    ),
}


@pytest.mark.parametrize("case", CERTAIN)
def test_function_that_draws_otherwise_in_another_run_is_named_with_its_place(case: str) -> None:
    make, function, words = CERTAIN[case]
    [sentence] = Pipeline(make()).find_stateful_draws()
    place = f"{HERE}:{function.__code__.co_firstlineno}"
    assert f"({function.__name__})" in sentence or case == "scan"
    assert f" at {place} {words}: others in each run" in sentence
    if case != "generator of Python":
        assert sentence in Pipeline(make()).find_irreproducible(seeded=True)


def test_generator_is_named_whose_seed_is_not_known() -> None:
    [sentence] = Pipeline(with_generator()()).find_stateful_draws()
    assert "noisy" in sentence
    assert "others in each run, unless that was created from a seed" in sentence
    assert Pipeline(with_generator()()).find_irreproducible(seeded=True) == []


def test_generator_that_is_called_in_parallel_is_named_and_ranks_do_not_compare_it() -> None:
    make = with_generator(num_parallel_calls=2)
    [sentence] = Pipeline(make()).find_stateful_draws()
    assert "from a generator of random numbers in parallel calls" in sentence
    assert sentence in Pipeline(make()).find_irreproducible(seeded=True)
    parts = tnt_data.distribute(make(), 0, 2, fingerprint=True)
    assert {int(part.fingerprint) for part in parts} == {0}


@pytest.mark.parametrize("size", [1, 2])
def test_explanation_says_what_is_not_the_same_in_every_run_and_the_remedy(size: int) -> None:
    lines = tnt_data.explain(CERTAIN["unseeded"][0](), size).splitlines()
    [sentence] = Pipeline(CERTAIN["unseeded"][0]()).find_stateful_draws()
    assert lines.index(f"Not the same in every run: {sentence}.") + 1 == next(
        number for number, line in enumerate(lines) if line.startswith("Remedy: draw by tf.random.")
    )


def of_element(x: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
    noise = tf.random.stateless_normal([], tf.stack([7, seed]))
    return tf.cast(x, tf.float32) + noise


def remedied() -> tf.data.Dataset:
    samples = Data.zip((Data.range(23), Data.random(seed=7)))
    return samples.shuffle(9, seed=1).map(of_element, num_parallel_calls=2).batch(8)


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["picked", "cut"])
def test_numbers_from_seeds_of_the_elements_are_those_of_the_serial_run(way: int) -> None:
    assert Pipeline(remedied()).find_stateful_draws() == []
    assert "in every run" not in tnt_data.explain(remedied(), 2)
    assert_ranks_share_serial_batches(remedied, remedied, 2, way=way, epochs=2, lanes=4)


def test_what_draws_nothing_is_not_named() -> None:
    def counted(x: tf.Tensor) -> tf.Tensor:
        return count.assign_add(x)

    count = tf.Variable(0, dtype=tf.int64)
    for dataset in (Data.range(9).map(abs), Data.range(9).map(counted), Data.range(9).shuffle(4)):
        assert Pipeline(dataset.batch(4)).find_stateful_draws() == []
