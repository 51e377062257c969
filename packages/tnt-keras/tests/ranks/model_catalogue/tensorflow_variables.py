"""Steps that keep values in plain variables of TensorFlow."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, own_step, squared_errors


class Accumulating(OwnStep):
    """Keeps a plain `tf.Variable`, which Keras does not count among the weights."""

    def __init__(self, inner: Any, loss_of: Any) -> None:
        super().__init__(inner, loss_of)
        self.seen = tf.Variable(0.0, trainable=False)

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        self.seen.assign_add(tf.reduce_sum(squared_errors(self, x, y)))
        return super().logs(x, y, loss) | {"seen": self.seen.read_value()}


@wrong(evaluates=False)
def total_in_a_tensorflow_variable() -> Training:
    model = own_step(mean_squared_error, kind=Accumulating)
    return model, data.of_arrays(data.features(), data.targets())


@wrong(evaluates=False)
def loss_scaled_by_a_tensorflow_variable() -> Training:
    """The loss is divided by a running sum, which the step moves."""

    class Scaling(Accumulating):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            self.seen.assign_add(tf.reduce_sum(squared_errors(self, x, y)))
            return super().train_step(batch)

    def scaled(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, x, y) * 10.0 / (10.0 + model.seen)

    model = own_step(scaled, kind=Scaling)
    return model, data.of_arrays(data.features(), data.targets())


@wrong(evaluates=False)
def gradients_collected_in_tensorflow_variables() -> Training:
    """Accumulation by hand: applied at every second step, of batches with other shares."""

    class Collecting(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.sums = [tf.Variable(tf.zeros(v.shape)) for v in inner.trainable_variables]
            self.steps = tf.Variable(0, trainable=False)

        def changed(self, gradients: list[Any]) -> list[Any]:
            self.steps.assign_add(1)
            is_last = tf.cast(self.steps % 2 == 0, tf.float32)
            totals = [kept + new for kept, new in zip(self.sums, gradients, strict=True)]
            for kept, total in zip(self.sums, totals, strict=True):
                kept.assign(total * (1.0 - is_last))
            return [total * is_last for total in totals]

    model = own_step(mean_squared_error, kind=Collecting)
    return model, data.of_arrays(data.features(), data.targets())
