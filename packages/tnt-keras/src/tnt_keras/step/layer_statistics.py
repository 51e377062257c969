"""Variables that a step changes besides weights and metrics: moving statistics, counters, queues.

After a step each rank has moved them by what it saw of its own samples. By default all ranks take
the mean of what these moves give, weighted as the samples are:

    v := sum_r (n_r / n) * v_r.

For moving averages of batch means that is the serial result; moving variances average those of the
micro-batches. A variable that is declared with `aggregation="sum"`, a counter, adds up the moves of
all ranks instead, and with "only_first_replica" takes that of the master rank. The rules of a step
(`step.rules`) come before all this; they can also name variables that the model does not know.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.process.rank import is_master_rank
from tnt_keras.step.context import Step
from tnt_keras.step.increment import Increment, moves_by_rule
from tnt_keras.step.rules import Rule
from tnt_keras.step.variables import name_of


def statistics_variables(model: keras.Model) -> list[Any]:
    """Return the variables that layers may change on their own in a training step. Local.

    These are floating-point, not trainable, and belong to no frozen layer: frozen layers leave
    theirs alone, and frozen weights would be a waste to send in each step.

    Args:
        model: A built model.
    """
    frozen = {
        id(variable)
        for layer in all_layers(model)
        if not layer.trainable
        for variable in layer.variables
    }
    return [
        variable
        for variable in model.non_trainable_weights
        if id(variable) not in frozen and tf.as_dtype(variable.dtype).is_floating
    ]


def default_rule(variable: Any) -> Rule:
    """Return the rule for changes of a variable for which no rule was chosen. Local.

    Args:
        variable: One of `statistics_variables`.
    """
    declared = getattr(variable, "aggregation", "none")
    return {"sum": Rule.SUM, "only_first_replica": Rule.SAME}.get(declared, Rule.MEAN)


class StatisticsStates:
    """The statistics of a model during one step.

    Args:
        variables: Those that have no rule of their own.
        step: The current step.
    """

    def __init__(self, variables: list[Any], step: Step) -> None:
        self._step = step
        self._variables = [v for v in variables if step.rules.of_variable(v) is None]
        self._before = [tf.identity(variable.value) for variable in self._variables]

    def increments(self) -> list[Increment]:
        """Return what this rank's samples made of the variables. Local."""
        return [
            increment
            for variable, before in zip(self._variables, self._before, strict=True)
            for increment in self._moves(variable, before)
        ]

    def _moves(self, variable: Any, before: tf.Tensor) -> list[Increment]:
        rule, presence = default_rule(variable), self._step.presence
        if rule is not Rule.SAME:
            return moves_by_rule(variable, name_of(variable), before, rule, self._step)
        of_master = presence if is_master_rank() else 0.0 * presence
        return [Increment.of_variable(variable, before, variable.value - before, of_master)]


class RuledStates:
    """The variables during one step whose rule is known: of layers, metrics, or the user's own.

    Args:
        step: The current step, with its rules.
    """

    def __init__(self, step: Step) -> None:
        self._step = step
        # Not before there is data: Keras looks for the end of a dataset by a step without any.
        with tf.control_dependencies([step.share]):
            self._before = [
                (entry, tf.identity(tf.convert_to_tensor(entry.variable)))
                for entry in step.rules.variables
            ]

    def increments(self) -> list[Increment]:
        """Return by how much this rank's samples changed the variables. Local."""
        return [
            increment
            for entry, before in self._before
            for increment in moves_by_rule(
                entry.variable, name_of(entry.variable), before, entry.rule, self._step
            )
        ]
