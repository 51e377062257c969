"""Random pipelines: every step of all ranks together is the serial batch, in both ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from simulated_ranks import PICK, SLICE, assert_ranks_share_serial_batches

Data = tf.data.Dataset
Build = Callable[[int | None], tf.data.Dataset]  # takes the seed for shuffles that have none
NUM_SAMPLES = 23


def numbers(num_samples: int) -> Any:
    yield from range(num_samples)


SOURCES: dict[str, Callable[[int], tf.data.Dataset]] = {
    "range": lambda n: Data.range(n),
    "from_tensor_slices": lambda n: Data.from_tensor_slices(tf.range(n, dtype=tf.int64)),
    "from_generator": lambda n: Data.from_generator(
        lambda: numbers(n), output_signature=tf.TensorSpec([], tf.int64)
    ),
    "filter": lambda n: Data.range(2 * n).filter(lambda x: x % 2 == 0),
    "interleave": lambda n: Data.range(2).interleave(
        lambda i: Data.range(i, n, 2), cycle_length=2, num_parallel_calls=2
    ),
}
STRUCTURES: dict[str, Callable[[tf.Tensor], Any]] = {
    "one": lambda x: x,
    "tuple": lambda x: (x, tf.cast(x, tf.float32) / 7),
    "dict": lambda x: {"a": tf.stack([x, -x]), "b": (x, {"c": tf.as_string(x)})},
}
STEPS: dict[str, Callable[[tf.data.Dataset], tf.data.Dataset]] = {
    "take": lambda d: d.take(NUM_SAMPLES - 3),
    "skip": lambda d: d.skip(2),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(2),
    "repeat": lambda d: d.repeat(2),
    "options": lambda d: d.with_options(tf.data.Options()),
}
BATCHES: dict[str, Callable[[tf.data.Dataset, int, bool], tf.data.Dataset]] = {
    "batch": lambda d, b, drop: d.batch(b, drop_remainder=drop),
    "parallel": lambda d, b, drop: d.batch(b, drop_remainder=drop, num_parallel_calls=2),
    "padded": lambda d, b, drop: d.padded_batch(b, drop_remainder=drop),
    "twice": lambda d, b, drop: d.batch(4).unbatch().batch(b, drop_remainder=drop),
}
SUFFIXES: dict[str, Callable[[tf.data.Dataset], tf.data.Dataset]] = {
    "take": lambda d: d.take(4),
    "skip": lambda d: d.skip(1),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(tf.data.AUTOTUNE),
    "repeat": lambda d: d.repeat(2),
    "options": lambda d: d.with_options(tf.data.Options()),
    "shard": lambda d: d.shard(2, 1),
    "mix": lambda d: d.map(lambda *e: tf.nest.map_structure(lambda t: tf.reverse(t, [0]), e)),
    "filter": lambda d: d.filter(lambda *e: tf.shape(tf.nest.flatten(e)[0])[0] > 1),
}


@st.composite
def builds(draw: st.DrawFn) -> tuple[str, Build]:
    """A pipeline with its description."""
    source = draw(st.sampled_from(sorted(SOURCES)))
    structure = draw(st.sampled_from(sorted(STRUCTURES)))
    shuffles = st.sampled_from(["unseeded", "seeded", "seed 0", "once", ""])
    shuffle, late_shuffle = draw(shuffles), draw(shuffles)
    steps = draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=2))
    batch = draw(st.sampled_from(sorted(BATCHES)))
    batch_size, drop = draw(st.integers(1, 9)), draw(st.booleans())
    suffix = draw(st.lists(st.sampled_from(sorted(SUFFIXES)), max_size=3))

    def build(default_seed: int | None) -> tf.data.Dataset:
        dataset = shuffled(SOURCES[source](NUM_SAMPLES), shuffle, default_seed)
        dataset = dataset.map(STRUCTURES[structure])
        for step in steps:
            dataset = STEPS[step](dataset)
        dataset = BATCHES[batch](dataset, batch_size, drop)
        for step in suffix:
            dataset = SUFFIXES[step](dataset)
        return shuffled(dataset, late_shuffle, default_seed)

    words = [source, shuffle, structure, *steps, batch, batch_size, drop, *suffix, late_shuffle]
    return " ".join(map(str, words)), build


def shuffled(dataset: tf.data.Dataset, how: str, default_seed: int | None) -> tf.data.Dataset:
    if how == "":
        return dataset
    if how == "once":
        return dataset.shuffle(7, seed=default_seed, reshuffle_each_iteration=False)
    seed = {"unseeded": default_seed, "seeded": 5, "seed 0": 0}[how]
    return dataset.shuffle(7, seed=seed)


@settings(max_examples=24, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(builds(), st.integers(1, 5), st.integers(1, 3), st.sampled_from([PICK, SLICE]))
def test_steps_of_all_ranks_are_the_serial_batches(
    drawn: tuple[str, Build], size: int, epochs: int, way: int
) -> None:
    _, build = drawn
    assert_ranks_share_serial_batches(
        lambda: build(None), lambda: build(42), size, way=way, epochs=epochs
    )


@settings(max_examples=12, deadline=None, derandomize=True)
@given(builds(), st.integers(2, 5))
def test_both_ways_have_the_same_types_and_the_serial_cardinality(
    drawn: tuple[str, Build], size: int
) -> None:
    from tnt_data.distribution import _distribute

    _, build = drawn
    serial = build(42)
    for rank in (0, size - 1):
        picked, cut = (_distribute(build(None), rank, size, None, 42, way) for way in (PICK, SLICE))
        assert picked.element_spec == cut.element_spec
        assert int(picked.cardinality()) == int(cut.cardinality()) == int(serial.cardinality())
