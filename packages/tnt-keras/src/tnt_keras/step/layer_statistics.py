"""Statistics that layers keep outside of training, such as batch normalisation's moving ones.

They are variables that no optimizer changes. After a step each rank has moved them by what it saw
of its own samples. All ranks then take the mean of these moves, weighted as the samples are:

    v := v_before + sum_r (n_r / n) * (v_r - v_before).

For moving averages of batch means that is the serial result; moving variances average those of the
micro-batches. A variable that is declared with `aggregation="sum"`, a counter, adds up the moves of
all ranks instead, and with "only_first_replica" takes that of the master rank.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.process.rank import is_master_rank
from tnt_keras.step.context import Step


def statistics_variables(model: keras.Model) -> list[Any]:
    """Returns the variables that layers may change on their own in a training step. Local.

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


class StatisticsStates:
    """The statistics of a model during one step.

    Args:
        model: A built model.
    """

    def __init__(self, model: keras.Model) -> None:
        self.variables = statistics_variables(model)
        self.before = [tf.identity(variable.value) for variable in self.variables]

    def increments(self) -> list[tf.Tensor]:
        """Returns by how much this rank's samples moved the variables."""
        return [
            variable.value - before
            for variable, before in zip(self.variables, self.before, strict=True)
        ]

    def scales(self, step: Step) -> list[tf.Tensor]:
        """Returns what the increments are multiplied by before they are added up.

        Args:
            step: The current step.
        """
        of_master = step.presence if is_master_rank() else 0.0 * step.presence
        special = {"sum": step.presence, "only_first_replica": of_master}
        return [
            special.get(getattr(variable, "aggregation", "none"), step.share)
            for variable in self.variables
        ]

    def add(self, totals: list[tf.Tensor]) -> None:
        """Sets the variables to their global values.

        Args:
            totals: The increments, weighted and summed over ranks.
        """
        for variable, before, total in zip(self.variables, self.before, totals, strict=True):
            variable.assign(before + total)
