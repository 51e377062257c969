"""Seeds of the order of samples, the same on all ranks, so that they draw the same order."""

from __future__ import annotations

import contextlib

import tensorflow as tf

from tnt_keras.calls.agree import of_master
from tnt_keras.calls.messages import allgather_json
from tnt_keras.process.rank import MASTER_RANK

SEED = 42
"""For shuffles without a seed, and for the order of arrays and `PyDataset`s in the first `fit`."""

Seeds = tuple[int, int]
"""The two numbers from which an operation of TensorFlow draws."""


def seeds_of_keras() -> Seeds | None:
    """Return the seeds with which Keras shuffles arrays, None without a global seed. Local.

    It does so by the first random operation of a traced function.
    """
    found: list[tuple[int | None, int | None]] = []

    @tf.autograph.experimental.do_not_convert
    def look(element: tf.Tensor) -> tf.Tensor:
        with contextlib.suppress(RuntimeError):  # deterministic operations, which need a seed
            found.append(tf.compat.v1.random.get_seed(None))
        return element

    tf.data.Dataset.range(1).map(look)
    first, second = found[0] if found else (None, None)
    return None if first is None or second is None else (first, second)


def seeds_of_master() -> Seeds | None:
    """Return `seeds_of_keras` of the master rank. Collective.

    So `keras.utils.set_random_seed(seed + rank)` gives the order of the serial run.
    """
    seeds: Seeds | None = of_master("the seed of the order", seeds_of_keras())
    return seeds


def difference_of_global_seeds() -> str:
    """Say which rank has another global seed than the master, and what to do. Collective."""
    own = seeds_of_keras()
    of_ranks = allgather_json("global seeds", "not set" if own is None else own[0])
    for rank, seed in enumerate(of_ranks):
        if seed != of_ranks[MASTER_RANK]:
            return (
                f"TensorFlow's global seed, which shuffles take over when they are made, is "
                f"{of_ranks[MASTER_RANK]} on rank {MASTER_RANK} and {seed} on rank {rank}, as "
                "after `keras.utils.set_random_seed(seed + rank)`: set the same seed on all ranks "
                "before the dataset is made."
            )
    return ""
