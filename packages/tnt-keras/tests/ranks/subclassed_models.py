"""Runs of subclassed layers and models."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from classifiers import compiled, results_of, samples

import tnt_keras


def custom_step(distributed: bool) -> dict[str, Any]:
    """A subclassed, unbuilt model with its own train_step and trackers under other names."""
    keras.utils.set_random_seed(13)

    class Autoencoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.layers.Dense(4, activation="tanh")
            self.decoder = keras.layers.Dense(10)
            self.total_tracker = keras.metrics.Mean(name="total_loss")
            self.error_tracker = keras.metrics.MeanAbsoluteError(name="error")

        @property
        def metrics(self) -> list[Any]:
            return [self.total_tracker, self.error_tracker]

        def call(self, inputs: Any) -> Any:
            return self.decoder(self.encoder(inputs))

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                outputs = self(data, training=True)
                loss = tf.reduce_mean(tf.square(outputs - data))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.total_tracker.update_state(loss)
            self.error_tracker.update_state(data, outputs)
            return {
                "loss": self.total_tracker.result(),
                "error": self.error_tracker.result(),
                "batch_loss": loss,
            }

    model = compiled(Autoencoder(), distributed, {"optimizer": keras.optimizers.SGD(0.1)})
    data = tf.data.Dataset.from_tensor_slices(samples()[0]).batch(5)
    return results_of(model, model.fit(data, epochs=3, verbose=0))


class Gan(keras.Model):
    """Two networks with an optimizer each, set after `compile` as Keras' examples do."""

    def __init__(self, gradients_first: bool) -> None:
        super().__init__()
        self.gradients_first = gradients_first
        self.generator = keras.Sequential([keras.Input((3,)), keras.layers.Dense(10)])
        self.critic = keras.Sequential([keras.Input((10,)), keras.layers.Dense(1)])
        self.loss_tracker = keras.metrics.Mean(name="loss")

    def compile(self, generator_optimizer: Any, critic_optimizer: Any) -> None:
        super().compile()
        self.generator_optimizer = generator_optimizer
        self.critic_optimizer = critic_optimizer

    @property
    def metrics(self) -> list[Any]:
        return [self.loss_tracker]

    def train_step(self, data: Any) -> Any:
        noise = data[:, :3]  # of the sample, so that it is the same on any number of ranks
        critic_gradients = self._critic_gradients(data, noise)
        if self.gradients_first:
            generator_gradients = self._generator_gradients(noise)
            self._apply(self.critic_optimizer, critic_gradients, self.critic)
        else:
            self._apply(self.critic_optimizer, critic_gradients, self.critic)
            generator_gradients = self._generator_gradients(noise)
        self._apply(self.generator_optimizer, generator_gradients, self.generator)
        return {"loss": self.loss_tracker.result()}

    def _critic_gradients(self, data: Any, noise: Any) -> Any:
        with tf.GradientTape() as tape:
            scores = self.critic(data) - self.critic(self.generator(noise))
            loss = tf.reduce_mean(tf.square(scores - 1.0))
        return tape.gradient(loss, self.critic.trainable_variables)

    def _generator_gradients(self, noise: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(self.critic(self.generator(noise))))
        self.loss_tracker.update_state(loss)
        return tape.gradient(loss, self.generator.trainable_variables)

    def _apply(self, optimizer: Any, gradients: Any, network: Any) -> None:
        optimizer.apply_gradients(zip(gradients, network.trainable_variables, strict=True))


def two_optimizers(distributed: bool, gradients_first: bool) -> dict[str, Any]:
    """A model whose step uses optimizers that `compile` of Keras has not seen."""
    keras.utils.set_random_seed(14)
    model = Gan(gradients_first)
    if distributed:
        model = tnt_keras.Model(model)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), keras.optimizers.SGD(0.05))
    return results_of(
        model, model.fit(samples()[0], batch_size=5, shuffle=False, epochs=3, verbose=0)
    )


class Regressor(keras.Model):
    """A model of one layer, whose step is replaced in what follows."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(10)
        self.total = keras.metrics.Sum(name="total")
        self.hidden = keras.metrics.MeanSquaredError(name="hidden")

    @property
    def metrics(self) -> list[Any]:
        return [self.total]  # leaves the other one out

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def gradient_step(self, data: Any) -> None:
        with tf.GradientTape() as tape:
            outputs = self(data, training=True)
            # One value per sample, reduced by the step itself.
            loss = tf.reduce_mean(keras.losses.MeanSquaredError(reduction=None)(data, outputs))
        gradients = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
        self.total.update_state(tf.reduce_sum(outputs))
        self.hidden.update_state(data, outputs)


class PlainStep(Regressor):
    """Its step sees bare inputs, as Keras hands them over for arrays without targets."""

    def train_step(self, data: Any) -> Any:
        assert tf.is_tensor(data)
        self.gradient_step(data)
        return {"total": self.total.result(), "hidden": self.hidden.result()}


class FunctionStep(Regressor):
    """Its step is a `tf.function`, and calls another one."""

    @tf.function
    def train_step(self, data: Any) -> Any:
        self.inner(data)
        return {"total": self.total.result(), "hidden": self.hidden.result()}

    @tf.function
    def inner(self, data: Any) -> None:
        self.gradient_step(data)


def own_step(distributed: bool, is_function: bool) -> dict[str, Any]:
    """Sums, hidden metrics and unreduced losses in a step of the user's own, on bare arrays."""
    keras.utils.set_random_seed(15)
    model = FunctionStep() if is_function else PlainStep()
    model = compiled(model, distributed, {"optimizer": keras.optimizers.SGD(0.1)})
    return results_of(
        model, model.fit(samples()[0], batch_size=5, shuffle=False, epochs=2, verbose=0)
    )


@keras.saving.register_keras_serializable("tests")
class Counter(keras.layers.Layer):
    """Counts samples in a weight that is declared as a sum."""

    def build(self, shape: Any) -> None:
        self.count = self.add_weight(shape=(), trainable=False, aggregation="sum", name="count")

    def call(self, inputs: Any) -> Any:
        self.count.assign_add(tf.cast(tf.shape(inputs)[0], tf.float32))
        return inputs


def counting_layer(distributed: bool) -> dict[str, Any]:
    """A layer's own counter counts the samples of all ranks."""
    keras.utils.set_random_seed(16)
    model = keras.Sequential([keras.Input((10,)), Counter(), keras.layers.Dense(10)])
    model = compiled(model, distributed, {"optimizer": "sgd", "loss": "mse"})
    x = samples()[0]
    return results_of(model, model.fit(x, x, batch_size=5, shuffle=False, verbose=0))
