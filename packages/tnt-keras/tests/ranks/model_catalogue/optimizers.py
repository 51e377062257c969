"""Optimizers, and what is done to gradients before they are applied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import tnt_keras

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step


def _classifier(optimizer: Any, **fit_arguments: Any) -> Training:
    model = network(3, activation="softmax")
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model, data.of_arrays(data.features(), data.labels(), **fit_arguments)


def _changing(change: Callable[[list[Any]], list[Any]], optimizer: Any = None) -> Training:
    class Changing(OwnStep):
        def changed(self, gradients: list[Any]) -> list[Any]:
            return change(gradients)

    model = own_step(mean_squared_error, kind=Changing, optimizer=optimizer)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def gradients_clipped_by_norm_before_apply() -> Training:
    return _changing(lambda gradients: tf.clip_by_global_norm(gradients, 0.5)[0])


@wrong()
def gradients_clipped_by_value_before_apply() -> Training:
    return _changing(lambda gradients: [tf.clip_by_value(g, -0.1, 0.1) for g in gradients])


@wrong()
def gradients_clipped_above_the_first_ones() -> Training:
    """Nothing is clipped in the first batches; in a later one the gradients are larger."""
    model, arguments = _changing(lambda gradients: tf.clip_by_global_norm(gradients, 20.0)[0])
    arguments["y"][15:] *= 60
    return model, arguments


@wrong()
def gradients_of_unit_length() -> Training:
    return _changing(lambda gradients: [g / (tf.norm(g) + 1e-3) for g in gradients])


@wrong()
def signs_of_gradients() -> Training:
    return _changing(lambda gradients: [tf.sign(g) for g in gradients], keras.optimizers.SGD(0.01))


def _sharpness_aware(first_gradient: Callable[[Any, Any], Any]) -> Training:
    """Gradients are taken at weights that a gradient has moved."""

    class SharpnessAware(OwnStep):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            variables = self.trainable_variables
            with tf.GradientTape() as tape:
                loss = mean_squared_error(self, x, y)
            first = [first_gradient(each, x) for each in tape.gradient(loss, variables)]
            scale = 0.2 / (tf.linalg.global_norm(first) + 1e-6)
            for variable, gradient in zip(variables, first, strict=True):
                variable.assign_add(scale * gradient)
            with tf.GradientTape() as tape:
                moved = mean_squared_error(self, x, y)
            second = tape.gradient(moved, variables)
            for variable, gradient in zip(variables, first, strict=True):
                variable.assign_sub(scale * gradient)
            self.optimizer.apply_gradients(zip(second, variables, strict=True))
            return self.logs(x, y, loss)

    model = own_step(mean_squared_error, kind=SharpnessAware)
    return model, data.of_arrays(data.features(), data.targets())


@wrong()
def optimizer_that_clips_in_apply_gradients() -> Training:
    class Clipping(keras.optimizers.SGD):
        def apply_gradients(self, grads_and_vars: Any) -> Any:
            gradients, variables = zip(*grads_and_vars, strict=True)
            clipped, _ = tf.clip_by_global_norm(gradients, 0.1)
            return super().apply_gradients(zip(clipped, variables, strict=True))

    model = own_step(mean_squared_error, optimizer=Clipping(0.5))
    return model, data.of_arrays(data.features(), data.targets())


@wrong(evaluates=False)
def sharpness_aware_minimisation() -> Training:
    return _sharpness_aware(lambda gradient, x: gradient)


@right(evaluates=False)
def sharpness_aware_minimisation_by_the_gradient_of_all_samples() -> Training:
    def of_all_samples(gradient: Any, x: Any) -> Any:
        num_samples = tf.cast(tf.shape(x)[:1], gradient.dtype)
        return tnt_keras.batch_mean(gradient[tf.newaxis], weights=num_samples)

    return _sharpness_aware(of_all_samples)


@wrong()
def rate_of_the_batch() -> Training:
    """Polyak's step: the loss of the batch over the squared norm of its gradient."""

    class Polyak(OwnStep):
        def train_step(self, batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = mean_squared_error(self, x, y)
            gradients = tape.gradient(loss, self.trainable_variables)
            rate = loss / (tf.linalg.global_norm(gradients) ** 2 + 1.0)
            self.optimizer.apply_gradients(
                [(rate * g, v) for g, v in zip(gradients, self.trainable_variables, strict=True)]
            )
            return self.logs(x, y, loss)

    model = own_step(mean_squared_error, kind=Polyak)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def gradients_scaled_and_averaged() -> Training:
    """What is linear in the gradients may be done before they are applied."""
    return _changing(lambda gradients: [0.5 * g - 0.1 * tf.reduce_mean(g) for g in gradients])


@right()
def gradient_of_zero() -> Training:
    """A variable that the loss does not move, and one that it does not know."""

    def partial(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, x, y) + 0.0 * tf.reduce_sum(model.unused)

    class Unused(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.unused = self.add_weight(shape=(3,), name="unused")

    model = own_step(partial, kind=Unused)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def momentum() -> Training:
    return _classifier(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True))


@right()
def adam_with_amsgrad() -> Training:
    return _classifier(keras.optimizers.Adam(1e-2, epsilon=1e-3, amsgrad=True))


@right()
def rmsprop_centred() -> Training:
    return _classifier(keras.optimizers.RMSprop(1e-2, epsilon=1e-3, centered=True, momentum=0.5))


@right()
def weight_decay() -> Training:
    return _classifier(keras.optimizers.AdamW(1e-2, weight_decay=0.1, epsilon=1e-3))


@right()
def clipped_by_norm() -> Training:
    return _classifier(keras.optimizers.SGD(0.3, clipnorm=0.1))


@right()
def clipped_by_global_norm() -> Training:
    return _classifier(keras.optimizers.SGD(0.3, global_clipnorm=0.1))


@right()
def clipped_by_value() -> Training:
    return _classifier(keras.optimizers.SGD(0.3, clipvalue=0.02))


@right()
def averaged_weights() -> Training:
    return _classifier(
        keras.optimizers.SGD(0.3, use_ema=True, ema_momentum=0.8, ema_overwrite_frequency=3)
    )


@right()
def accumulated_gradients() -> Training:
    return _classifier(keras.optimizers.SGD(0.3, gradient_accumulation_steps=2))


@right()
def learning_rate_schedule() -> Training:
    return _classifier(
        keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.3, 3, 0.5))
    )


@right()
def learning_rate_callback() -> Training:
    callback = keras.callbacks.LearningRateScheduler(lambda epoch: 0.3 / (epoch + 1))
    return _classifier(keras.optimizers.SGD(0.1), callbacks=[callback])


@right(policy="mixed_float16")
def loss_scaling() -> Training:
    return _classifier(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**12)
    )


@right(policy="mixed_float16")
def loss_scaling_with_skipped_steps() -> Training:
    """The first scale is too large for float16: the first steps are skipped."""
    return _classifier(
        keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=2.0**18)
    )


@right(policy="mixed_bfloat16")
def bfloat16() -> Training:
    return _classifier(keras.optimizers.SGD(0.1, momentum=0.9))


@right()
def optimizer_for_each_network() -> Training:
    class TwoOptimizers(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.head_optimizer = keras.optimizers.Adam(1e-2, epsilon=1e-3)

        def train_step(self, batch: Any) -> Any:
            x, y = batch
            with tf.GradientTape() as tape:
                loss = mean_squared_error(self, x, y)
            variables = self.trainable_variables
            gradients = tape.gradient(loss, variables)
            self.optimizer.apply_gradients(zip(gradients[:2], variables[:2], strict=True))
            self.head_optimizer.apply_gradients(zip(gradients[2:], variables[2:], strict=True))
            return self.logs(x, y, loss)

    model = own_step(mean_squared_error, kind=TwoOptimizers)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def several_steps_per_execution() -> Training:
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], steps_per_execution=2)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def run_eagerly() -> Training:
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse", metrics=["mae"], run_eagerly=True)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def frozen_layers() -> Training:
    model, arguments = _classifier("sgd")
    model.layers[1].trainable = False
    model.compile(keras.optimizers.SGD(0.3), "sparse_categorical_crossentropy")
    return model, arguments


@right()
def constrained_weights() -> Training:
    x = keras.Input((6,))
    y = keras.layers.Dense(4, kernel_constraint=keras.constraints.MaxNorm(0.5))(x)
    y = keras.layers.Dense(1, kernel_constraint="non_neg", bias_constraint="unit_norm")(y)
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.3), "mse")
    return model, data.of_arrays(data.features(), data.targets())


@right()
def noise_on_gradients() -> Training:
    """Drawn once per step, not for samples: the same on all ranks, and as in the serial run."""
    seed = keras.random.SeedGenerator(3)
    return _changing(
        lambda gradients: [g + keras.random.normal(g.shape, seed=seed) for g in gradients]
    )


class Lookahead(keras.optimizers.Adam):
    """Goes half the way back every third step (Zhang et al. 2019).

    That `build` copies the weights is lost in a graph, with plain Keras as well.
    """

    def build(self, variables: list[Any]) -> None:
        super().build(variables)
        self.slow = [
            self.add_variable_from_reference(variable, name="slow", initializer="zeros")
            for variable in variables
        ]
        for slow, variable in zip(self.slow, variables, strict=True):
            slow.assign(variable)

    def apply(self, grads: list[Any], trainable_variables: list[Any] | None = None) -> None:
        super().apply(grads, trainable_variables)
        looks_back = keras.ops.equal(self.iterations % 3, 0)
        for slow, fast in zip(self.slow, self._trainable_variables, strict=True):
            middle = keras.ops.where(looks_back, (slow + fast) / 2, slow)
            fast.assign(keras.ops.where(looks_back, middle, fast))
            slow.assign(middle)


@right()
def optimizer_that_assigns_when_it_is_built() -> Training:
    return _classifier(Lookahead(0.05))
