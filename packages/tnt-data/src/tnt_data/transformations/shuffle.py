"""Shuffles and sources of random numbers: transformations with a seed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import Kind
from tnt_data.tensorflow_private import InspectedDataset, rebuild_by_operation, seeds_of
from tnt_data.transformations.dataset_class import Changes, DatasetClass, Inputs, shown


def _shuffle(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    seeds = _seeds(inspected, changes.seed)
    arguments = {
        **seeds,
        "buffer_size": inspected.argument("buffer_size"),
        "seed_generator": tf.raw_ops.DummySeedGenerator(),
        "reshuffle_each_iteration": inspected.argument("reshuffle_each_iteration"),
    }
    operation = tf.raw_ops.ShuffleDatasetV3
    return rebuild_by_operation(inspected.dataset, inputs[0], operation, arguments, seeds)


def _random(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    seeds = _seeds(inspected, changes.seed)
    operation, arguments = tf.raw_ops.RandomDataset, seeds
    if inspected.argument("rerandomize"):
        operation = tf.raw_ops.RandomDatasetV2
        arguments = {
            **seeds,
            "seed_generator": tf.raw_ops.DummySeedGenerator(),
            "rerandomize_each_iteration": True,
        }
    return rebuild_by_operation(inspected.dataset, None, operation, arguments, seeds)


def _seeds(inspected: InspectedDataset, seed: int) -> dict[str, Any]:
    """Return its own seeds, or else those that `seed=seed` gives without a global seed."""
    # The public methods mix in the global seed as it is when they are called, which may be another
    # one by now.
    own = {name: inspected.argument(name) for name in ("seed", "seed2")}
    if any(int(one) for one in own.values()):
        return own
    first, second = seeds_of(seed)
    return {"seed": tf.constant(first, tf.int64), "seed2": tf.constant(second, tf.int64)}


def _details_of_shuffle(inspected: InspectedDataset) -> list[str]:
    keeps_order = inspected.value("reshuffle_each_iteration") is False
    more = ["reshuffle_each_iteration=False"] if keeps_order else []
    return shown("buffer_size")(inspected) + more


def _reshuffles(inspected: InspectedDataset) -> bool:
    return inspected.argument("reshuffle_each_iteration") is not False


def _rerandomizes(inspected: InspectedDataset) -> bool:
    return inspected.argument("rerandomize") is True


CLASSES = (
    DatasetClass(
        "ShuffleDataset",
        "shuffle",
        Kind.SHUFFLE,
        _shuffle,
        details=_details_of_shuffle,
        changes_order=_reshuffles,
    ),
    DatasetClass("RandomDataset", "random", Kind.RANDOM, _random, changes_order=_rerandomizes),
)
