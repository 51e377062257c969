"""The exchanges of a step, which also check that the parts of ranks make up one batch."""

from __future__ import annotations

import tensorflow as tf

from tnt_keras.collectives.error_cause import MARK_OF_CHECKS
from tnt_keras.collectives.step_channels import StepChannels
from tnt_keras.collectives.step_exchange import StepExchange
from tnt_keras.partition import Request
from tnt_keras.process.rank import get_size

_LARGEST_EXACT = 2**24  # of float32, in which most sums of a step travel
_DIFFERENT = (
    "The samples of all ranks do not add up to the global batch: ranks have read batches of "
    "different sizes. All ranks must be given the same data."
)


class CheckedExchange(StepExchange):
    """The exchanges of one graph; the last one adds up how many samples ranks have.

    Args:
        channels: As for `StepExchange`.
        num_local: Samples of this rank.
        num_global: Samples of the batch, which is the sum of those of all ranks.
    """

    def __init__(self, channels: StepChannels, num_local: int, num_global: int) -> None:
        super().__init__(channels)
        self._sizes = [num_local, num_global]

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all that was asked for, as `StepExchange.flush`. Collective.

        Args:
            last: As there.
        """
        if not last:
            return super().flush(last)
        total = self._sizes[1] * get_size()
        dtype = tf.float32 if total < _LARGEST_EXACT else tf.float64
        own = tf.constant(self._sizes, dtype)
        self.ask(Request("sum", own, "number of samples", "", is_update=False))
        *results, sums = super().flush(last)
        are_right = tf.reduce_all(sums == tf.constant([self._sizes[1], total], dtype))
        tf.debugging.Assert(are_right, [MARK_OF_CHECKS + _DIFFERENT])
        return results
