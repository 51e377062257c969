"""Steps that do something else later than in the first batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, own_step


def _with_term(weight: Callable[[], Any]) -> Any:
    """Return a model with the square of a batch mean in the loss, and a weight of it."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        more = tf.square(tf.reduce_mean(model(x)))
        return mean_squared_error(model, x, y) + weight() * more

    return own_step(loss_of)


@wrong()
def term_that_a_variable_of_no_layer_switches_on() -> Training:
    """As the weight of a divergence is often annealed: a callback raises it after each batch."""
    weight = tf.Variable(0.0, trainable=False)

    class Anneal(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            weight.assign_add(0.1)

    model = _with_term(lambda: weight)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[Anneal()])


@wrong()
def term_in_a_graph_that_is_made_anew() -> Training:
    """Something in Python becomes another one, and Keras is told to trace the step again."""

    phase = [0.0]

    class NextPhase(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            phase[0] = float(epoch)
            self.model.make_train_function(force=True)

    model = _with_term(lambda: phase[0])
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[NextPhase()])


@wrong(evaluates=False)
def sum_that_one_branch_keeps() -> Training:
    """In the fifth step alone."""

    class Branching(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.kept = self.add_weight((), "zeros", trainable=False, name="kept")

        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            total = tf.reduce_sum(tf.abs(y))

            def keep() -> Any:
                self.kept.assign_add(total)
                return self.kept.value

            is_this = tf.equal(self.optimizer.iterations.value, 4)
            tf.cond(is_this, keep, lambda: self.kept.value)
            return super().logs(x, y, loss)

    model = own_step(mean_squared_error, kind=Branching)
    return model, data.of_arrays(data.features(), data.targets())
