"""Tell apart the variables that a step may change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.probe.runs.observation import Kind, Observation
from tnt_keras.probe.runs.variable_changes import VariableChanges
from tnt_keras.step.metrics import all_metrics
from tnt_keras.step.variables import is_number, seed_states


class StepVariables:
    """The variables of a model, its metrics and optimizers. Creation and methods are local.

    Where a `tf.Variable` is asked for, it may be one that nobody here knows.

    Args:
        model: A built model.
        optimizers: That its steps are known to use.

    Attributes:
        metrics: Of the model.
    """

    def __init__(self, model: keras.Model, optimizers: Sequence[Any]) -> None:
        self.metrics = all_metrics(model)
        self._seeds = {id(variable.value) for variable in seed_states(model)}
        self._of_metrics = _by_id(each for metric in self.metrics for each in metric.variables)
        of_optimizers = _by_id(each for one in optimizers for each in one.variables)
        self._of_keras = _by_id(model.variables) | self._of_metrics | of_optimizers

    def of_keras(self, variable: tf.Variable) -> Any:
        """Return the variable of Keras that consists of one of TensorFlow, else that one."""
        return self._of_keras.get(id(variable), variable)

    def is_of_metric(self, variable: tf.Variable) -> bool:
        """Return whether a variable is one of a metric."""
        return id(variable) in self._of_metrics

    def kind_of(self, variable: tf.Variable) -> Kind | None:
        """Return as what the changes of a variable are compared; None if they are not."""
        if not is_number(variable.dtype) or id(variable) in self._seeds:
            return None
        return Kind.METRIC if self.is_of_metric(variable) else Kind.VARIABLE

    def sums_of_metrics(self, observations: Sequence[Observation]) -> list[Any]:
        """Return the variables of metrics but the constant ones.

        Args:
            observations: As for `constants_of_metrics`.
        """
        constants = {id(variable) for variable in self.constants_of_metrics(observations)}
        return [each for each in self._of_metrics.values() if id(each) not in constants]

    def constants_of_metrics(self, observations: Sequence[Observation]) -> list[Any]:
        """Return the variables that a metric only reads, such as a threshold.

        They are not zero, and the serial step leaves them as they are though it updates the metric.

        Args:
            observations: Of serial runs of the step.
        """
        changed = {each.key for observation in observations for each in observation}
        updated = [
            metric
            for metric in self.metrics
            if any(id(variable.value) in changed for variable in metric.variables)
        ]
        return [
            variable
            for metric in updated
            for variable in metric.variables
            if id(variable.value) not in changed and np.any(variable.numpy())
        ]

    def counters(self, changes: VariableChanges) -> list[tf.Variable]:
        """Return what may count steps: scalars that are integers, or that have grown by one.

        Args:
            changes: Of a run of the step.
        """
        return [
            variable
            for variable in changes.variables
            if variable.shape.rank == 0
            and self.kind_of(variable) is Kind.VARIABLE
            and (variable.dtype.is_integer or _move(variable, changes) == 1.0)
        ]

    def scalar_moves(self, changes: VariableChanges) -> list[tuple[tf.Variable, float]]:
        """Return the real scalars that a run has changed, and by how much each.

        Args:
            changes: Of a run of the step.
        """
        return [
            (variable, _move(variable, changes))
            for variable in changes.variables
            if variable.shape.rank == 0
            and variable.dtype.is_floating
            and self.kind_of(variable) is Kind.VARIABLE
        ]


def _move(variable: tf.Variable, changes: VariableChanges) -> float:
    """Return by how much a run has changed a scalar."""
    return float(variable.numpy()) - float(changes.initial(variable).numpy())


def _by_id(variables: Iterable[Any]) -> dict[int, Any]:
    """Return variables of Keras by the ids of those of TensorFlow that they consist of."""
    return {id(variable.value): variable for variable in variables}
