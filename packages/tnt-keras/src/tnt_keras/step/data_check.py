"""Compare at the beginning of a step what data the ranks have read.

Where all ranks read the same dataset, all of this follows from it. It does not if each rank has a
dataset of its own, or Python code makes the batches: ranks may then have different numbers of
samples, and one may run out of data while the others wait for it in their next step. A rank whose
samples have a label that `class_weight` has no place for says so here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.collectives.channel import Allgather, Channel
from tnt_keras.collectives.checks import require
from tnt_keras.collectives.current_call import current_call
from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.exchange import ExchangeSequence
from tnt_keras.collectives.ops import one
from tnt_keras.process.rank import get_rank
from tnt_keras.step.context import Step

NO_LABEL = np.int64(np.iinfo(np.int64).min)
"""Stands for the label without weight where there is none."""

_HAS_DATA, _LABEL, _NUM_LOCAL, _NUM_GLOBAL, _FINGERPRINT = range(5)
_REMEDY = (
    "Give all ranks equally many batches, or limit them by `steps_per_epoch` (`validation_steps` "
    "for validation data, `steps` in `evaluate` and `predict`)."
)
_OUT_OF_DATA = (
    "Ranks have different numbers of steps: some have no more data while others go on. "
    f"{_REMEDY} Ranks without data:"
)
_NO_WEIGHT = (
    "`class_weight` has weights for the labels from 0 to the largest one that it names; with a "
    "dataset, as in Keras, any other label is an error. Name a larger label, with the weight 1 for "
    "instance, or map the labels. Ranks with such labels:"
)
_OTHER_DATA = (
    "Ranks have read different data in one step, so that some samples are used twice and others "
    "not at all."
)
_REMEDY_FOR_DATASETS = (
    "Do all build the same pipeline, with seeds for all that is random? (`{call}` with "
    "`verify_inputs=False` takes what differs on purpose.)"
)
_REMEDY_FOR_BATCHES = (
    "Give `{call}` the same arguments on all ranks, each of which computes some of the rows, or "
    "the elements of `tnt.data.distribute(dataset)`, of a dataset that all build alike. Do all "
    "set the same seeds for what is random?"
)
_CALLS_WITH_DATASETS = ("fit", "evaluate", "predict")


_NAME = "data of a step"


class DataCheck:
    """Gather a few numbers of all ranks at the beginning of each step. Creation is collective.

    Methods that are given a `label_without_weight` fail on all ranks if one has any: the first
    label of this rank's samples that has no place in `class_weight`, as int64 scalar, or
    `NO_LABEL`.
    """

    def __init__(self) -> None:
        self._channel = Channel(_NAME)
        # Made now, since a rank that has no data at all never traces a step.
        self._channel.gatherers([_NAME])

    def total_samples(
        self, num_local: tf.Tensor, label_without_weight: tf.Tensor, exchanges: ExchangeSequence
    ) -> Step:
        """Make sure that all ranks have data. Collective.

        Args:
            num_local: int64 scalar, samples of this rank.
            label_without_weight: See the class.
            exchanges: Those of the graph so far.

        Returns:
            The step, with the samples of all ranks together.
        """
        zero = tf.zeros([], tf.int64)
        of_ranks = self._gather([label_without_weight, num_local, zero, zero], exchanges)
        num_local = of_ranks[get_rank(), _NUM_LOCAL]  # as in `same_batch`
        return Step(num_local, tf.reduce_sum(of_ranks[:, _NUM_LOCAL]), exchanges)

    def same_batch(
        self, part: MicroBatch, label_without_weight: tf.Tensor, exchanges: ExchangeSequence
    ) -> Step:
        """Make sure that all ranks have read the same global batch. Collective.

        Args:
            part: This rank's part of it.
            label_without_weight: See the class.
            exchanges: Those of the graph so far.

        Returns:
            The step, whose numbers exist once the batch is known to be the same everywhere.
        """
        facts = [label_without_weight, part.num_local, part.num_global, part.fingerprint]
        of_ranks = self._gather(facts, exchanges, _check_same_batch)
        # Nothing that a step sends is sent without these numbers: if the check fails, no other
        # exchange has begun, and ranks can go on with the next step.
        own = of_ranks[get_rank()]
        return Step(own[_NUM_LOCAL], own[_NUM_GLOBAL], exchanges)

    def end(self) -> None:
        """Tell the others that this rank has no more data in this epoch. Collective.

        Raises:
            DifferentInputError: If another rank has.
        """
        of_ranks = self._channel.gather_without_graph(_NAME, np.array([[0, NO_LABEL, 0, 0, 0]]))
        going_on = np.flatnonzero(of_ranks[:, _HAS_DATA])
        if len(going_on):
            raise DifferentInputError(
                f"Rank {get_rank()} has no more data, but ranks {going_on.tolist()} go on: all "
                f"must have the same number of steps. {_REMEDY}"
            )

    def _gather(
        self,
        facts: Sequence[tf.Tensor],
        exchanges: ExchangeSequence,
        check: Callable[[tf.Tensor], list[Any]] = lambda of_ranks: [],
    ) -> tf.Tensor:
        """Return the numbers of all ranks, shape `(ranks, 5)`, when they are found to be right."""

        def checked(results: list[tf.Tensor]) -> list[tf.Tensor]:
            [of_ranks] = results
            have_none = of_ranks[:, _HAS_DATA] == 0
            labels = of_ranks[:, _LABEL]
            lack_weight = labels != NO_LABEL
            first_labels = ["The first of each:", tf.boolean_mask(labels, lack_weight)]
            checks = [
                _none_of(have_none, _OUT_OF_DATA),
                _none_of(lack_weight, _NO_WEIGHT, first_labels),
                *check(of_ranks),
            ]
            with tf.control_dependencies(checks):
                return [tf.identity(of_ranks)]

        own = tf.stack([tf.cast(fact, tf.int64) for fact in (1, *facts)])[tf.newaxis]
        [of_ranks] = exchanges.exchange(self._channel, [Allgather(_NAME, own, one())], checked)
        return of_ranks


def other_data() -> str:
    """Return the message for ranks that have read different batches, as fits their call. Local."""
    running = current_call()
    calls = running.name.split(" > ") if running else ["fit"]
    if calls[-1] in _CALLS_WITH_DATASETS:
        remedy = _REMEDY_FOR_DATASETS.format(call=calls[0])
    else:
        remedy = _REMEDY_FOR_BATCHES.format(call=calls[-1])
    return f"{_OTHER_DATA} {remedy} Ranks that differ from rank 0:"


def _check_same_batch(of_ranks: tf.Tensor) -> list[Any]:
    read = of_ranks[:, _NUM_GLOBAL:]
    return [_none_of(tf.reduce_any(read != read[:1], axis=1), other_data())]


def _none_of(ranks: tf.Tensor, message: str, more: Sequence[str | tf.Tensor] = ()) -> Any:
    """Check that a condition holds on no rank; a failed check names those on which it does."""
    return require(tf.logical_not(tf.reduce_any(ranks)), message, [tf.where(ranks)[:, 0], *more])
