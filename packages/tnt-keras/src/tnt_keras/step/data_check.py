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
from tnt_data import MicroBatch
from tnt_keras.collectives import ops
from tnt_keras.collectives.checks import require
from tnt_keras.process.rank import get_rank
from tnt_keras.step.context import Step, one, token_after

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

    def total_samples(self, num_local: tf.Tensor, last_group: tf.Tensor | None) -> Step:
        """Makes sure that all ranks have data. Collective.

        Args:
            num_local: int64 scalar, samples of this rank.
            last_group: Token of the last group of the step before in the same graph, if any.

        Returns:
            The step, with the samples of all ranks together.
        """
        zero = tf.zeros([], tf.int64)
        of_ranks = self._gather([num_local, zero, zero], last_group)
        total = tf.reduce_sum(of_ranks[:, _NUM_LOCAL])
        return Step(num_local, total, token_after([of_ranks]))

    def same_batch(self, part: MicroBatch, last_group: tf.Tensor | None) -> Step:
        """Makes sure that all ranks have read the same global batch. Collective.

        Args:
            part: This rank's part of it.
            last_group: As for `total_samples`.

        Returns:
            The step, whose numbers exist once the batch is known to be the same everywhere.
        """
        facts = [part.num_local, part.num_global, part.fingerprint]
        of_ranks = self._gather(facts, last_group)
        read = of_ranks[:, _NUM_GLOBAL:]
        differs = tf.reduce_any(read != read[:1], axis=1)
        with tf.control_dependencies([_none_of(differs, _OTHER_DATA)]):
            num_global = tf.identity(part.num_global)
        return Step(part.num_local, num_global, token_after([num_global]))

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

    def _gather(self, facts: list[tf.Tensor], last_group: tf.Tensor | None) -> tf.Tensor:
        """The numbers of all ranks, shape `(ranks, 4)`. It blocks, so it is a group of its own."""
        with tf.control_dependencies([] if last_group is None else [last_group]):
            own = tf.stack([tf.cast(fact, tf.int64) for fact in (1, *facts)])[tf.newaxis]
        token = ops.start_gather(own, one(), self._gatherer)
        of_ranks = ops.finish_gather(own, token, self._gatherer)
        with tf.control_dependencies([_none_of(of_ranks[:, _HAS_DATA] == 0, _OUT_OF_DATA)]):
            return tf.identity(of_ranks)


def _none_of(ranks: tf.Tensor, message: str) -> Any:
    """Checks that a condition holds on no rank, and names those on which it does."""
    return require(tf.logical_not(tf.reduce_any(ranks)), message, [tf.where(ranks)[:, 0]])
