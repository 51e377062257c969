"""Models that learn to generate: several networks, losses and optimizers in a step."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import network


class Adversarial(keras.Model):
    """DCGAN of keras.io, with noise out of the samples.

    Args:
        critic_loss: From the scores of real and of generated samples, and both samples.
        generator_loss: From the critic, real and generated samples.
    """

    def __init__(self, critic_loss: Any, generator_loss: Any) -> None:
        super().__init__()
        self.generator = network(6, inputs=3)
        self.critic = network(1)
        self.critic_loss = critic_loss
        self.generator_loss = generator_loss
        self.trackers = [keras.metrics.Mean(name="critic"), keras.metrics.Mean(name="generator")]

    def compile(self, critic_optimizer: Any, generator_optimizer: Any) -> None:
        super().compile()
        self.critic_optimizer = critic_optimizer
        self.generator_optimizer = generator_optimizer

    @property
    def metrics(self) -> list[Any]:
        return self.trackers

    def call(self, x: Any) -> Any:
        return self.critic(self.generator(x[:, :3]))

    def train_step(self, real: Any) -> Any:
        with tf.GradientTape() as tape:
            critic_loss = self.critic_loss(self.critic, real, self.generator(real[:, :3]))
        variables = self.critic.trainable_variables
        gradients = tape.gradient(critic_loss, variables)
        self.critic_optimizer.apply_gradients(zip(gradients, variables, strict=True))
        with tf.GradientTape() as tape:
            generator_loss = self.generator_loss(self.critic, real, self.generator(real[:, :3]))
        variables = self.generator.trainable_variables
        gradients = tape.gradient(generator_loss, variables)
        self.generator_optimizer.apply_gradients(zip(gradients, variables, strict=True))
        for tracker, loss in zip(self.trackers, (critic_loss, generator_loss), strict=True):
            tracker.update_state(loss)
        return {tracker.name: tracker.result() for tracker in self.trackers}


def _adversarial(critic_loss: Any, generator_loss: Any) -> Training:
    model = Adversarial(critic_loss, generator_loss)
    model.build((None, 6))
    model.compile(keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1, momentum=0.5))
    return model, data.of_arrays(data.features())


def _fooled(critic: Any, real: Any, fake: Any) -> Any:
    return -tf.reduce_mean(critic(fake))


@right(evaluates=False)
def deep_convolutional_adversaries() -> Training:
    """Real and generated samples in one batch of twice the size."""
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def both(critic: Any, real: Any, fake: Any) -> Any:
        truth = tf.concat([tf.ones((tf.shape(real)[0], 1)), tf.zeros((tf.shape(fake)[0], 1))], 0)
        return entropy(truth, critic(tf.concat([real, fake], 0)))

    def fooled(critic: Any, real: Any, fake: Any) -> Any:
        return entropy(tf.ones((tf.shape(fake)[0], 1)), critic(fake))

    return _adversarial(both, fooled)


@wrong(evaluates=False)
def relativistic_average_critic() -> Training:
    """Real samples against the mean score of generated ones."""

    def relative(critic: Any, real: Any, fake: Any) -> Any:
        above = critic(real) - tf.reduce_mean(critic(fake))
        below = critic(fake) - tf.reduce_mean(critic(real))
        return tf.reduce_mean(tf.nn.softplus(-above)) + tf.reduce_mean(tf.nn.softplus(below))

    return _adversarial(relative, _fooled)


class Coding(keras.layers.Layer):
    """Samples a code around its mean, and adds the divergence from the prior."""

    def __init__(self) -> None:
        super().__init__()
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, both: Any) -> Any:
        mean, log_variance = (tf.cast(each, tf.float32) for each in both)  # as Keras adds losses
        each = -0.5 * (1.0 + log_variance - mean**2 - tf.exp(log_variance))
        self.add_loss(0.05 * tf.reduce_mean(tf.reduce_sum(each, axis=-1)))
        draws = keras.random.normal(tf.shape(mean), seed=self.seeds)
        return mean + tf.exp(0.5 * log_variance) * draws


@right(draws=True)
def variational_autoencoder() -> Training:
    x = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh")(x)
    both = [keras.layers.Dense(2)(hidden), keras.layers.Dense(2)(hidden)]
    model = keras.Model(x, keras.layers.Dense(6)(Coding()(both)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.features())
