"""Steps that do something else later than in the first batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, own_step


class _Switched(OwnStep):
    """Adds the square of a batch mean to the loss, weighted by a function of the model."""

    weight: Callable[[Any], Any]

    def __init__(self, inner: Any, loss_of: Any) -> None:
        super().__init__(inner, self._loss)
        self.strength = self.add_weight((), "zeros", trainable=False, name="strength")
        self.count = self.add_weight((), "zeros", dtype="int32", trainable=False, name="count")

    def _loss(self, model: Any, x: Any, y: Any) -> Any:
        more = tf.square(tf.reduce_mean(self(x)))
        return mean_squared_error(model, x, y) + tf.cast(self.weight(), tf.float32) * more


def _switched(weight: Callable[[Any], Any], *callbacks: Any) -> Training:
    class Switched(_Switched):
        def weight(self) -> Any:
            return weight(self)

    model = own_step(mean_squared_error, kind=Switched)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=list(callbacks))


@wrong()
def term_that_a_callback_switches_on() -> Training:
    """The weight of a divergence, which is zero in the first epoch."""

    class Anneal(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.strength.assign(float(epoch))

    return _switched(lambda model: model.strength.value, Anneal())


@wrong()
def term_that_a_callback_switches_on_in_the_middle_of_an_epoch() -> Training:
    class Switch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            self.model.strength.assign(float(batch == 2))

    return _switched(lambda model: model.strength.value, Switch())


@wrong()
def term_beyond_a_fraction_of_the_epochs() -> Training:
    class Progress(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.strength.assign(0.15 * (epoch + 1))

    model, arguments = _switched(lambda model: model.strength.value > 0.5, Progress())
    return model, arguments | {"epochs": 4}


@wrong()
def term_whose_weight_is_one_of_several_in_a_variable() -> Training:
    class Weighted(_Switched):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.weights_of_terms = self.add_weight((2,), "zeros", trainable=False, name="terms")

        def weight(self) -> Any:
            return self.weights_of_terms[1]

    class Switch(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            self.model.weights_of_terms.assign([1.0, 0.5 * epoch])

    model = own_step(mean_squared_error, kind=Weighted)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[Switch()])


@wrong()
def term_that_a_variable_of_no_layer_switches_on() -> Training:
    """As the weight of a divergence is often annealed: a callback raises it after each batch."""
    weight = tf.Variable(0.0, trainable=False)

    class Anneal(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            weight.assign_add(0.1)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        more = tf.square(tf.reduce_mean(model(x)))
        return mean_squared_error(model, x, y) + weight * more

    model = own_step(loss_of)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[Anneal()])


@wrong()
def term_that_a_truth_value_selects() -> Training:
    """A variable that TensorFlow reads by itself, as it is handed to `tf.where`."""
    is_on = tf.Variable(False, trainable=False)

    class Switch(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            is_on.assign(batch == 2)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        more = tf.square(tf.reduce_mean(model(x)))
        return mean_squared_error(model, x, y) + tf.where(is_on, more, 0.0)

    model = own_step(loss_of)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[Switch()])


@wrong()
def quotient_by_weights_of_many_classes() -> Training:
    """All weights are one in the first epochs, so that the quotient is a mean."""
    weights = tf.Variable(tf.ones([40]), trainable=False)
    classes = data.labels(40)

    class Rebalance(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 3:
                weights.assign(tf.linspace(0.1, 3.0, 40))

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        of_samples = tf.gather(weights, tf.cast(y[:, 1], tf.int32))
        errors = tf.square(model(x)[:, 0] - y[:, 0])
        return tf.reduce_sum(of_samples * errors) / tf.reduce_sum(of_samples)

    model = own_step(loss_of)
    targets = np.concatenate([data.targets(), classes[:, None]], axis=1).astype("float32")
    arguments = data.of_arrays(data.features(), targets, callbacks=[Rebalance()])
    return model, arguments | {"epochs": 4}


@wrong()
def term_in_a_graph_that_is_made_anew() -> Training:
    """An attribute of Python becomes another one, and Keras is told to trace the step again."""

    class Phased(_Switched):
        is_late = False

        def weight(self) -> Any:
            return float(self.is_late)

    class NextPhase(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            if epoch == 1:
                self.model.is_late = True
                self.model.make_train_function(force=True)

    model = own_step(mean_squared_error, kind=Phased)
    return model, data.of_arrays(data.features(), data.targets(), callbacks=[NextPhase()])


@wrong()
def term_that_the_learning_rate_switches_on() -> Training:
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 if epoch < 3 else 0.04)
    model, arguments = _switched(lambda model: model.optimizer.learning_rate < 0.05, schedule)
    return model, arguments | {"epochs": 4}


@wrong()
def term_after_some_steps_of_the_optimizer() -> Training:
    return _switched(lambda model: model.optimizer.iterations.value > 3)


@wrong(evaluates=False)
def term_after_some_steps_that_the_model_counts() -> Training:
    def weight(model: Any) -> Any:
        model.count.assign_add(1)
        return model.count.value > 3

    return _switched(weight)


@wrong(evaluates=False)
def term_that_fades_in_late() -> Training:
    """A variable grows by a tenth in each step, and counts from 0.9 on."""

    class FadesIn(_Switched):
        def weight(self) -> Any:
            self.strength.assign(tf.minimum(1.0, self.strength + 0.15))
            return tf.maximum(0.0, self.strength.value - 0.9)

    model = own_step(mean_squared_error, kind=FadesIn)
    return model, data.of_arrays(data.features(), data.targets())


@right(evaluates=False)
def mixture_that_fades_in() -> Training:
    class FadesIn(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, self._loss)
            self.share = self.add_weight((), "zeros", trainable=False, name="share")

        def _loss(self, model: Any, x: Any, y: Any) -> Any:
            self.share.assign(tf.minimum(1.0, self.share + 0.15))
            errors = model(x, training=True) - y
            squares, magnitudes = tf.square(errors), tf.abs(errors)
            return tf.reduce_mean((1.0 - self.share) * squares + self.share * magnitudes)

    model = own_step(mean_squared_error, kind=FadesIn)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def term_in_every_third_step() -> Training:
    """The first step that has it is neither the first nor the second one."""
    return _switched(lambda model: tf.equal(model.optimizer.iterations.value % 3, 2))


@wrong()
def term_in_a_few_early_steps() -> Training:
    def weight(model: Any) -> Any:
        steps = model.optimizer.iterations.value
        return tf.logical_and(steps >= 4, steps < 6)

    return _switched(weight)


@right(evaluates=False)
def weight_from_a_table_of_steps() -> Training:
    """The table has a weight for each step of this training, and none for later ones."""

    class Weighted(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, self._weighted)
            self.count = self.add_weight((), "zeros", dtype="int32", trainable=False, name="count")
            self.table = tf.linspace(1.0, 0.5, 8)

        def _weighted(self, model: Any, x: Any, y: Any) -> Any:
            weight = self.table[self.count.value]
            self.count.assign_add(1)
            return weight * mean_squared_error(model, x, y)

    model = own_step(mean_squared_error, kind=Weighted)
    return model, data.of_arrays(data.features(), data.targets())


class _Branching(OwnStep):
    """Does something in one step, by default in the fourth one."""

    step = 4

    def __init__(self, inner: Any, loss_of: Any) -> None:
        super().__init__(inner, loss_of)
        self.kept = self.add_weight((), "zeros", trainable=False, name="kept")

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        total = tf.reduce_sum(tf.abs(y))
        is_this = tf.equal(self.optimizer.iterations.value, self.step)
        tf.cond(is_this, lambda: self.change(total), lambda: self.kept.value)
        return super().logs(x, y, loss)

    def change(self, total: Any) -> Any:
        raise NotImplementedError


def _branching(change: Callable[[Any, Any], Any], number: int = 4) -> Training:
    class Branching(_Branching):
        step = number

        def change(self, total: Any) -> Any:
            change(self, total)
            return self.kept.value

    model = own_step(mean_squared_error, kind=Branching)
    return model, data.of_arrays(data.features(), data.targets())


@wrong(evaluates=False)
def sum_that_one_branch_keeps() -> Training:
    return _branching(lambda model, total: model.kept.assign_add(total))


@wrong(evaluates=False)
def sum_that_one_late_branch_keeps() -> Training:
    """No state that is looked at goes there."""
    return _branching(lambda model, total: model.kept.assign_add(total), 13)


@right(evaluates=False)
def weight_that_one_branch_copies() -> Training:
    """As target networks are made: what comes of weights is the same on all ranks."""
    return _branching(lambda model, total: model.kept.assign(model.inner.weights[1].value[0]))


@right(evaluates=False)
def count_in_python() -> Training:
    """Each third step is a smaller one, by an attribute of the model."""

    class Counting(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.num_steps = 0

        def changed(self, gradients: list[Any]) -> list[Any]:
            self.num_steps += 1
            return [gradient * (0.1 if self.num_steps % 3 == 0 else 1.0) for gradient in gradients]

    model = own_step(mean_squared_error, kind=Counting)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model, data.of_arrays(data.features(), data.targets())
