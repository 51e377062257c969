"""Logs of this rank's own samples, beside the global ones.

Variables of metrics hold sums over the samples of all ranks. A rank adds up what its rows have
added to them, and computes results of metrics from that when asked, without other ranks. What is no
sum over samples stays global, and so do values of no metric, and steps that each rank computes
whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.step.replicas import array_of


class OwnLogs:
    """What the steps of a compiled model keep for this rank."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._sums: dict[int, Any] = {}
        self._newest = ""  # the step whose results are not computed yet
        self._values: dict[str, dict[str, Any]] = {}

    def variables(self) -> list[tf.Variable]:
        """Return the variables of the metrics, of which steps are to give partial sums. Local."""
        return [each.value for metric in self._model.metrics for each in metric.variables]

    def add(
        self,
        step_name: str,
        variables: Sequence[tf.Variable],
        partial_sums: Sequence[tf.Tensor | None],
        factor: float,
    ) -> None:
        """Add `factor` times what this rank's rows have added in a step; None is no sum. Local."""
        for variable, partial_sum in zip(variables, partial_sums, strict=True):
            if partial_sum is None:
                self._sums[id(variable)] = None
            elif self._sums.get(id(variable), 0.0) is not None:
                self._sums[id(variable)] = self._sums.get(id(variable), 0.0) + factor * partial_sum
        self._newest = step_name

    def reset(self) -> None:
        """Begin anew, as Keras does with metrics. Local."""
        self._sums.clear()

    def replace(self, logs: dict[str, Any], step_name: str) -> dict[str, Any]:
        """Return global logs of a step, with values of this rank where there are any. Local."""
        if self._newest == step_name:
            self._values[step_name] = self._results()
            self._newest = ""
        own = self._values.get(step_name, {})
        return {key: own.get(key, value) for key, value in logs.items()}

    def _results(self) -> dict[str, Any]:
        """Return the results of the metrics from this rank's sums."""
        kept = []
        for metric in self._model.metrics:
            variables = [each.value for each in metric.variables]
            if all(self._sums.get(id(variable)) is not None for variable in variables):
                kept += [(variable, variable.numpy()) for variable in variables]
        for variable, _ in kept:
            variable.assign(tf.cast(self._sums[id(variable)], variable.dtype))
        try:
            results = self._model.get_metrics_result()
        finally:
            for variable, value in kept:
                variable.assign(value)
        arrays = {key: array_of(value) for key, value in results.items()}
        return {key: array if array.ndim else float(array) for key, array in arrays.items()}


def keep_own_logs(model: Any) -> None:
    """Let the steps of a distributed model keep the logs of this rank's samples. Local.

    The first time, graphs of steps without them are dropped.
    """
    if model._tnt_owner.own_logs is None:
        model._tnt_owner.own_logs = OwnLogs(model)
        model.train_function = model.test_function = None
