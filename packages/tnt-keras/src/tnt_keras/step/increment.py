"""Combine the contributions of all ranks to a value by its rule, and assign the result."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.channel import Allgather, Allreduce, Channel, Collective
from tnt_keras.step.context import Step
from tnt_keras.step.rules import Rule, scale_of
from tnt_keras.step.variables import name_of

_HALF = 2**32


@dataclasses.dataclass(frozen=True, eq=False)
class Increment:
    """A contribution of this rank, and what is done with the value of the global batch.

    Attributes:
        contribution: Of this rank.
        use: Called with what the exchange makes of it: the sum, or the rows of all ranks.
    """

    contribution: Collective
    use: Callable[[tf.Tensor], None]

    @classmethod
    def of_variable(
        cls, variable: Any, before: tf.Tensor, value: tf.Tensor, scale: tf.Tensor
    ) -> Increment:
        """Return the increment that sums what the samples of all ranks add to a variable. Local.

        Args:
            variable: A Keras variable.
            before: Its value before the step.
            value: What this rank's samples add to it.
            scale: float64 scalar, the weight of this rank.
        """
        return cls(
            Allreduce(name_of(variable), value, scale),
            lambda total: variable.assign(before + total),
        )

    @classmethod
    def by_rule(
        cls,
        name: str,
        value: tf.Tensor,
        rule: Rule,
        step: Step,
        use: Callable[[tf.Tensor], None],
    ) -> Increment:
        """Return the increment that combines a value of all ranks by a rule. Local.

        Args:
            name: Of the value, for messages.
            value: Of this rank.
            rule: By which the values of ranks combine, see `step.rules`.
            step: The current step.
            use: Called with the combined value.
        """
        if rule is Rule.MAX:
            rows = Allgather(name, value[tf.newaxis], step.presence)
            return cls(
                rows, lambda all_rows: use(tf.ensure_shape(tf.reduce_max(all_rows, 0), value.shape))
            )
        return cls(Allreduce(name, value, scale_of(rule, step.share, step.presence)), use)


def moves_by_rule(
    variable: Any, name: str, before: tf.Tensor, rule: Rule, step: Step
) -> list[Increment]:
    """Return the increment that makes a changed variable equal on all ranks. Local.

    With the value v_r after this rank's step, v := max_r v_r for MAX,

        v := sum_r (n_r / n) * v_r            for MEAN,
        v := before + sum_r (v_r - before)    for SUM;

    nothing is to be done for SAME. Sums are those of float64: a variable that no rank has changed
    keeps its value to the last bit, and one that begins at 1e9 may become small. Sums of integers
    are exact.

    Args:
        variable: A Keras or TensorFlow variable.
        name: Of the variable, for messages.
        before: Its value before the step.
        rule: Of its moves.
        step: The current step.

    Returns:
        One increment, or none.
    """
    after = tf.convert_to_tensor(variable)
    if rule is Rule.SAME:
        return []
    if rule is Rule.MAX:
        return [Increment.by_rule(name, after, rule, step, variable.assign)]
    if rule is Rule.SUM and not after.dtype.is_floating:
        return [_sum_of_integers(variable, name, before, step)]

    def add(total: tf.Tensor) -> None:
        change = total if after.dtype.is_floating else tf.round(total)
        variable.assign(tf.cast(tf.cast(base, tf.float64) + change, after.dtype))

    is_coarser = after.dtype.is_floating and after.dtype != tf.float64
    base = tf.zeros_like(before) if rule is Rule.MEAN and is_coarser else before
    move = tf.cast(after, tf.float64) - tf.cast(base, tf.float64)
    return [Increment.by_rule(name, move, rule, step, add)]


def _sum_of_integers(variable: Any, name: str, before: tf.Tensor, step: Step) -> Increment:
    """Return the increment of an integer variable, in two halves that float64 holds exactly."""
    move = tf.cast(tf.convert_to_tensor(variable), tf.int64) - tf.cast(before, tf.int64)
    high = move // _HALF
    halves = tf.cast(tf.stack([high, move - high * _HALF]), tf.float64)

    def add(totals: tf.Tensor) -> None:
        high, low = tf.unstack(tf.cast(totals, tf.int64))
        total = tf.cast(before, tf.int64) + high * _HALF + low
        variable.assign(tf.cast(total, before.dtype))

    return Increment.by_rule(name, halves, Rule.SUM, step, add)


def combine(increments: Sequence[Increment], step: Step, channel: Channel) -> None:
    """Combine the contributions of all ranks in one exchange, and use the results. Collective.

    Args:
        increments: Of this rank.
        step: The current step.
        channel: Keeps them apart from other exchanges.
    """
    results = step.exchange(channel, [increment.contribution for increment in increments])
    for increment, result in zip(increments, results, strict=True):
        increment.use(result)
