"""What ranks tell each other at the beginning of a step about the data that they have read.

Where all ranks read the same dataset, all of this follows from it. It does not if each rank has a
dataset of its own, or Python code makes the batches: ranks may then have different numbers of
samples, and one may run out of data while the others wait for it in their next step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tnt_comm
from tnt_keras import ops
from tnt_keras.rank import get_rank
from tnt_keras.step import one

_HAS_DATA, _NUM_LOCAL, _NUM_GLOBAL, _FINGERPRINT = range(4)
_OUT_OF_DATA = (
    "Ranks have different numbers of steps: some have no more data while others go on. Give all "
    "ranks equally many batches, or limit them by `steps_per_epoch`. Ranks without data:"
)
_OTHER_DATA = (
    "Ranks have read different data in one step, so that some samples are used twice and others "
    "not at all. Do all build the same pipeline, with seeds for all that is random? Ranks that "
    "differ from rank 0:"
)


class StepExchange:
    """Gathers a few numbers of all ranks at the beginning of each step. Creation is collective."""

    def __init__(self) -> None:
        self._gatherer = tnt_comm.Gatherer("data of a step")
        self._previous: tuple[Any, tf.Tensor | None] = (None, None)

    def total_samples(self, num_local: tf.Tensor) -> tf.Tensor:
        """Makes sure that all ranks have data. Collective.

        Args:
            num_local: int64 scalar, samples of this rank.

        Returns:
            int64 scalar, samples of all ranks.
        """
        zero = tf.zeros([], tf.int64)
        return tf.reduce_sum(self._gather(num_local, zero, zero)[:, _NUM_LOCAL])

    def same_batch(
        self, num_local: tf.Tensor, num_global: tf.Tensor, fingerprint: tf.Tensor
    ) -> tf.Tensor:
        """Makes sure that all ranks have read the same global batch. Collective.

        Args:
            num_local: int64 scalar, samples of this rank.
            num_global: int64 scalar, samples of the global batch.
            fingerprint: int64 scalar, see `tnt_data.MicroBatch`.

        Returns:
            `num_global`, once it is known to be the same everywhere.
        """
        of_ranks = self._gather(num_local, num_global, fingerprint)
        read = of_ranks[:, _NUM_GLOBAL:]
        differs = tf.reduce_any(read != read[:1], axis=1)
        with tf.control_dependencies([_none_of(differs, _OTHER_DATA)]):
            return tf.identity(num_global)

    def end(self) -> None:
        """Tells the others that this rank has no more data in this epoch. Collective.

        Raises:
            ValueError: If another rank has.
        """
        self._gatherer.start(np.zeros((1, 4), np.int64))
        of_ranks = np.concatenate(self._gatherer.finish())
        going_on = np.flatnonzero(of_ranks[:, _HAS_DATA])
        if len(going_on):
            raise ValueError(
                f"Rank {get_rank()} has no more data, but ranks {going_on.tolist()} go on: all "
                "must have the same number of steps. Give all ranks equally many batches, or "
                "limit them by `steps_per_epoch`."
            )

    def _gather(
        self, num_local: tf.Tensor, num_global: tf.Tensor, fingerprint: tf.Tensor
    ) -> tf.Tensor:
        """The numbers of all ranks, shape `(ranks, 4)`."""
        facts = [tf.ones([], tf.int64), num_local, num_global, fingerprint]
        with tf.control_dependencies(self._previous_step()):
            own = tf.stack([tf.cast(fact, tf.int64) for fact in facts])[tf.newaxis]
        token = ops.start_gather(own, one(), self._gatherer)
        of_ranks = ops.finish_gather(own, token, self._gatherer)
        self._previous = (_graph(), of_ranks)
        with tf.control_dependencies([_none_of(of_ranks[:, _HAS_DATA] == 0, _OUT_OF_DATA)]):
            return tf.identity(of_ranks)

    def _previous_step(self) -> list[tf.Tensor]:
        """With `steps_per_execution` one graph holds several steps; nothing else orders them."""
        graph, result = self._previous
        return [result] if result is not None and graph is not None and graph is _graph() else []


def _none_of(ranks: tf.Tensor, message: str) -> Any:
    """Checks that a condition holds on no rank, and names those on which it does."""
    return tf.debugging.Assert(
        tf.logical_not(tf.reduce_any(ranks)), [message, tf.where(ranks)[:, 0]], summarize=64
    )


def _graph() -> Any:
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
