"""The exchanges of a step, which also check that the parts of ranks make up one batch."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.collectives.errors import MARK_OF_CHECKS
from tnt_keras.collectives.step_channels import StepChannels
from tnt_keras.collectives.step_exchange import StepExchange
from tnt_keras.partition import Request
from tnt_keras.process.rank import get_size

_LARGEST_EXACT = 2**24  # of float32, in which most sums of a step travel
_DIFFERENT = (
    "Ranks have read batches of different sizes, which have no parts in common. All ranks must be "
    "given the same data."
)


class CheckedExchange(StepExchange):
    """The exchanges of one graph; in the last one ranks compare the sizes of their batches.

    Args:
        channels: As for `StepExchange`.
        sizes: Of the global batch, as this rank knows it: integers, or int64 scalars of the graph.
    """

    def __init__(self, channels: StepChannels, sizes: Sequence[int | tf.Tensor]) -> None:
        super().__init__(channels)
        self._sizes = sizes

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all that was asked for, as `StepExchange.flush`. Collective.

        Args:
            last: As there.
        """
        if not last:
            return super().flush(last)
        exact = tf.stack([tf.cast(size, tf.int64) for size in self._sizes])
        own = tf.cast(exact % (_LARGEST_EXACT // get_size()), tf.float32)
        self.ask(Request("sum", own, "sizes of the batch", "", is_update=False))
        *results, sums = super().flush(last)
        are_right = tf.reduce_all(sums == own * tf.cast(get_size(), tf.float32))
        tf.debugging.Assert(are_right, [MARK_OF_CHECKS + _DIFFERENT])
        return results
