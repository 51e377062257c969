"""Logs of this rank's own samples, beside the global ones.

Metrics hold sums over the samples of all ranks, so a rank that wants to see its own keeps its own
sums: variables that get the increments of this rank alone and are set to zero when Keras resets the
metric. Steps compute results of them, too, and leave these in variables, since what a step returns
is global. No rank is asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.step.logs import Path, map_logs


class OwnLogs:
    """What the steps of a model keep for this rank. Once made, graphs of steps hold it."""

    def __init__(self) -> None:
        self._sums: list[tuple[Any, tf.Variable]] = []
        self._values: dict[str, dict[Path, tf.Variable]] = {"train_step": {}, "test_step": {}}

    def add(
        self, variables: Sequence[Any], increments: Sequence[tf.Tensor], presence: tf.Tensor
    ) -> None:
        """Let variables of metrics hold this rank's sums, with those of this step. Local.

        Args:
            variables: Of metrics, sums over samples; they are set to other values later.
            increments: What the step has added to each of them.
            presence: float64 scalar, 0 if the step's samples are none of this rank's, else 1.
        """
        for variable, increment in zip(variables, increments, strict=True):
            own = self._sum_of(variable)
            own.assign_add(tf.where(presence > 0, increment, tf.zeros_like(increment)))
            variable.assign(own)

    def keep(self, step_name: str, values: dict[Path, tf.Tensor]) -> None:
        """Keep values of the step, until it runs the next time. Local.

        Args:
            step_name: "train_step" or "test_step".
            values: Of logs, by path.
        """
        kept = self._values[step_name]
        for path, value in values.items():
            if path not in kept or kept[path].dtype != value.dtype:
                with tf.init_scope():
                    initial = tf.zeros([], value.dtype)
                    kept[path] = tf.Variable(initial, shape=tf.TensorShape(None), trainable=False)
            kept[path].assign(value)

    def reset(self, metrics: Sequence[Any]) -> None:
        """Begin anew with metrics that Keras resets. Local.

        Args:
            metrics: Those of the model.
        """
        reset = {id(variable) for metric in metrics for variable in metric.variables}
        for variable, own in self._sums:
            if id(variable) in reset:
                own.assign(tf.zeros_like(own))

    def replace(self, logs: dict[str, Any], step_name: str) -> dict[str, Any]:
        """Return logs with the values of this rank where there are such. Local.

        Args:
            logs: Global ones, as Keras gives them to callbacks.
            step_name: The step that they are of.
        """
        kept = self._values[step_name]

        def own(path: Path, value: Any) -> Any:
            variable = kept.get(path)
            if variable is None:
                return value
            number = variable.numpy()
            return float(number) if number.ndim == 0 else number

        return dict(map_logs(own, logs))

    def _sum_of(self, variable: Any) -> tf.Variable:
        for known, own in self._sums:
            if known is variable:
                return own
        with tf.init_scope():
            own = tf.Variable(tf.zeros(variable.shape, variable.dtype), trainable=False)
        self._sums.append((variable, own))
        return own
