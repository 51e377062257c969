"""Pipelines drawn at random, as functions of the seed for shuffles that have none.

Without a seed the pipeline is what a user wrote, with one it is what the serial run makes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

import tensorflow as tf

Data = tf.data.Dataset
Build = Callable[[int | None], tf.data.Dataset]
Change = Callable[[tf.data.Dataset], tf.data.Dataset]
NUM_SAMPLES = 23


def numbers(num_samples: int) -> Iterator[int]:
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
    "dict": lambda x: {"a": tf.stack([x, -x]), "b": (x, {"c": x * x})},
}


def times_two_plus_one(*element: Any) -> Any:
    changed = tf.nest.map_structure(lambda t: 2 * t + 1, element)
    return changed if len(element) > 1 else changed[0]


def same(*element: Any) -> Any:
    return element if len(element) > 1 else element[0]


def with_count(count: tf.Tensor, element: Any) -> Any:
    return count + 1, (count, element)


def elements_of(*window: Any) -> tf.data.Dataset:
    return Data.zip(window if len(window) > 1 else window[0])


def has_a_sum_not_divisible_by_three(*element: Any) -> tf.Tensor:
    return tf.reduce_sum(tf.cast(tf.nest.flatten(element)[0], tf.int64)) % 3 != 0


MAPS: dict[str, Change] = {
    "map": lambda d: d.map(times_two_plus_one),
    "parallel map": lambda d: d.map(times_two_plus_one, num_parallel_calls=2),
    "map without effect": lambda d: d.map(same),
}
ARRANGEMENTS: dict[str, Change] = {
    "take": lambda d: d.take(NUM_SAMPLES - 3),
    "skip": lambda d: d.skip(2),
    "repeat": lambda d: d.repeat(2),
    "shard": lambda d: d.shard(2, 1),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(2),
    "options": lambda d: d.with_options(tf.data.Options()),
}
REPAIRED: dict[str, Callable[[tf.data.Dataset, int | None], tf.data.Dataset]] = {
    "unseeded": lambda d, seed: d.shuffle(7, seed=seed),
    "once": lambda d, seed: d.shuffle(7, seed=seed, reshuffle_each_iteration=False),
    "seeded": lambda d, _: d.shuffle(5, seed=5),
    "seed 0": lambda d, _: d.shuffle(5, seed=0),
    "unordered map": lambda d, seed: d.map(
        times_two_plus_one, num_parallel_calls=2, deterministic=seed is not None
    ),
    "zip of shuffles": lambda d, seed: Data.zip(
        (
            d.shuffle(7, seed=seed),
            Data.range(19).shuffle(5, seed=None if seed is None else seed + 1),
        )
    ),
}
SHUFFLES = ("unseeded", "once", "seeded", "seed 0")
OTHERS: dict[str, Change] = {
    "filter": lambda d: d.filter(has_a_sum_not_divisible_by_three),
    "enumerate": lambda d: d.enumerate(),
    "zip": lambda d: Data.zip({"z": (d.map(times_two_plus_one), Data.range(19).map(same))}),
    "pairs": lambda d: d.batch(2, drop_remainder=True),
    "concatenate": lambda d: d.concatenate(d.take(3)),
    "sample": lambda d: Data.sample_from_datasets([d, d.skip(4)], [0.4, 0.6], seed=5),
    "window": lambda d: d.window(4, shift=3).flat_map(elements_of),
    "scan": lambda d: d.scan(tf.constant(0, tf.int64), with_count),
}
TRANSFORMATIONS = {**MAPS, **ARRANGEMENTS, **OTHERS}
BATCHES: dict[str, Callable[[tf.data.Dataset, int, bool], tf.data.Dataset]] = {
    "batch": lambda d, b, drop: d.batch(b, drop_remainder=drop),
    "parallel": lambda d, b, drop: d.batch(b, drop_remainder=drop, num_parallel_calls=2),
    "padded": lambda d, b, drop: d.padded_batch(b, drop_remainder=drop),
    "twice": lambda d, b, drop: d.batch(4).unbatch().batch(b, drop_remainder=drop),
}
SUFFIXES: dict[str, Change] = {
    "take": lambda d: d.take(4),
    "skip": lambda d: d.skip(1),
    "cache": lambda d: d.cache(),
    "prefetch": lambda d: d.prefetch(tf.data.AUTOTUNE),
    "repeat": lambda d: d.repeat(2),
    "options": lambda d: d.with_options(tf.data.Options()),
    "shard": lambda d: d.shard(2, 1),
    "row-wise": lambda d: d.map(times_two_plus_one),
    "mix": lambda d: d.map(lambda *e: tf.nest.map_structure(lambda t: tf.reverse(t, [0]), e)),
    "filter": lambda d: d.filter(lambda *e: tf.shape(tf.nest.flatten(e)[0])[0] > 1),
}


def random_pipeline(random: Random) -> tuple[str, Build]:
    """A pipeline with its description."""

    def some(names: Iterable[str], at_most: int) -> list[str]:
        return random.choices(sorted(names), k=random.randint(0, at_most))

    source, structure = random.choice(sorted(SOURCES)), random.choice(sorted(STRUCTURES))
    before = some([*TRANSFORMATIONS, *REPAIRED], 5) + some(MAPS, 2)
    batch = random.choice(sorted(BATCHES))
    batch_size, drop = random.randint(1, 9), random.random() < 0.5
    after = some([*SUFFIXES, *SHUFFLES], 3)

    def build(default_seed: int | None) -> tf.data.Dataset:
        dataset = SOURCES[source](NUM_SAMPLES).map(STRUCTURES[structure])
        for name in before:
            dataset = transformed(TRANSFORMATIONS, name, dataset, default_seed)
        dataset = BATCHES[batch](dataset, batch_size, drop)
        for name in after:
            dataset = transformed(SUFFIXES, name, dataset, default_seed)
        return dataset

    words = [source, structure, *before, batch, batch_size, drop, *after]
    return ", ".join(map(str, words)), build


def transformed(
    known: dict[str, Change], name: str, dataset: tf.data.Dataset, seed: int | None
) -> tf.data.Dataset:
    return REPAIRED[name](dataset, seed) if name in REPAIRED else known[name](dataset)
