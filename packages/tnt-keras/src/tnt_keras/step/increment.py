"""Add what a step has changed on each rank to a value that all ranks hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.channel import Allreduce, Channel
from tnt_keras.step.context import Step


@dataclasses.dataclass(frozen=True, eq=False)
class Increment:
    """A contribution of this rank, and what is done with the sum over all ranks.

    Attributes:
        summand: The contribution.
        use: Called with the sum over ranks.
    """

    summand: Allreduce
    use: Callable[[tf.Tensor], None]

    @classmethod
    def of_variable(
        cls, variable: Any, before: tf.Tensor, value: tf.Tensor, scale: tf.Tensor
    ) -> Increment:
        """Return the increment of a variable, which the sum makes global. Local.

        Args:
            variable: A Keras variable.
            before: Its value before the step.
            value: What this rank's samples add to it.
            scale: float64 scalar, the weight of this rank.
        """
        return cls(
            Allreduce(variable.path, value, scale), lambda total: variable.assign(before + total)
        )


def add_up(increments: Sequence[Increment], step: Step, channel: Channel) -> None:
    """Sum the increments of all ranks in one exchange, and use the sums in order. Collective.

    Args:
        increments: Of this rank.
        step: The current step.
        channel: Keeps them apart from other sums.
    """
    totals = step.exchange(channel, [increment.summand for increment in increments])
    for increment, total in zip(increments, totals, strict=True):
        increment.use(total)
