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


def _wasserstein(critic: Any, real: Any, fake: Any) -> Any:
    return tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real))


def _fooled(critic: Any, real: Any, fake: Any) -> Any:
    return -tf.reduce_mean(critic(fake))


def _penalised(critic: Any, real: Any, fake: Any) -> Any:
    between = 0.4 * real + 0.6 * fake
    with tf.GradientTape() as tape:
        tape.watch(between)
        scores = critic(between, training=True)
    slopes = tf.norm(tape.gradient(scores, between) + 1e-4, axis=1)
    return _wasserstein(critic, real, fake) + 10.0 * tf.reduce_mean((slopes - 1.0) ** 2)


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


@right(evaluates=False, half_precision=False)
def wasserstein_with_gradient_penalty() -> Training:
    return _adversarial(_penalised, _fooled)


@wrong(evaluates=False)
def features_matched_over_batch() -> Training:
    """The generator shall have the same mean features."""

    def matched(critic: Any, real: Any, fake: Any) -> Any:
        inner = critic.layers[1]
        difference = tf.reduce_mean(inner(real), axis=0) - tf.reduce_mean(inner(fake), axis=0)
        return tf.reduce_sum(difference**2)

    return _adversarial(_penalised, matched)


@wrong(evaluates=False)
def relativistic_average_critic() -> Training:
    """Real samples against the mean score of generated ones."""

    def relative(critic: Any, real: Any, fake: Any) -> Any:
        above = critic(real) - tf.reduce_mean(critic(fake))
        below = critic(fake) - tf.reduce_mean(critic(real))
        return tf.reduce_mean(tf.nn.softplus(-above)) + tf.reduce_mean(tf.nn.softplus(below))

    return _adversarial(relative, _fooled)


@wrong(evaluates=False)
def adversaries_with_summed_losses() -> Training:
    """Losses with reduction="sum", divided by the rows."""
    entropy = keras.losses.BinaryCrossentropy(from_logits=True, reduction="sum")

    def real_against_fake(critic: Any, real: Any, fake: Any) -> Any:
        rows = tf.shape(real)[0]
        ones, zeros = tf.ones((rows, 1)), tf.zeros((rows, 1))
        total = entropy(ones, critic(real)) + entropy(zeros, critic(fake))
        return total / tf.cast(rows, tf.float32)

    return _adversarial(real_against_fake, _fooled)


class Coding(keras.layers.Layer):
    """Samples a code around its mean, and adds the divergence from the prior."""

    def __init__(self, divergence: Any, noise: float) -> None:
        super().__init__()
        self.divergence = divergence
        self.noise = noise
        self.seeds = keras.random.SeedGenerator(3)

    def call(self, both: Any) -> Any:
        mean, log_variance = (tf.cast(each, tf.float32) for each in both)  # as Keras adds losses
        each = -0.5 * (1.0 + log_variance - mean**2 - tf.exp(log_variance))
        self.add_loss(0.05 * self.divergence(tf.reduce_sum(each, axis=-1)))
        if not self.noise:
            return mean
        draws = keras.random.normal(tf.shape(mean), seed=self.seeds)
        return mean + self.noise * tf.exp(0.5 * log_variance) * draws


def _variational(divergence: Any, noise: float) -> Training:
    x = keras.Input((6,))
    hidden = keras.layers.Dense(5, activation="tanh")(x)
    both = [keras.layers.Dense(2)(hidden), keras.layers.Dense(2)(hidden)]
    model = keras.Model(x, keras.layers.Dense(6)(Coding(divergence, noise)(both)))
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.features())


@right(draws=True)
def variational_autoencoder() -> Training:
    return _variational(tf.reduce_mean, 1.0)


@right()
def variational_autoencoder_without_noise() -> Training:
    return _variational(tf.reduce_mean, 0.0)


@wrong()
def variational_autoencoder_with_summed_divergence() -> Training:
    return _variational(tf.reduce_sum, 0.0)


@right()
def autoencoder() -> Training:
    x = keras.Input((6,))
    code = keras.layers.Dense(2, activation="tanh")(x)
    model = keras.Model(x, keras.layers.Dense(6)(code))
    model.compile(keras.optimizers.SGD(0.1), keras.losses.CosineSimilarity(), metrics=["mse"])
    return model, data.of_arrays(data.features(), data.features())


class Diffusion(keras.Model):
    """Learns the noise in samples of a given noise level, all out of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = network(3, inputs=4)
        self.averaged = network(3, inputs=4)
        self.averaged.trainable = False
        self.tracker = keras.metrics.Mean(name="noise")

    @property
    def metrics(self) -> list[Any]:
        return [self.tracker]

    def call(self, x: Any) -> Any:
        return self.averaged(tf.concat([x[:, :3], x[:, 3:4]], axis=1))

    def train_step(self, batch: Any) -> Any:
        level = tf.sigmoid(batch[:, :1])
        noise = batch[:, 3:]
        with tf.GradientTape() as tape:
            noisy = level * noise + (1.0 - level) * batch[:, :3]
            loss = self.compute_loss(
                y=noise, y_pred=self.inner(tf.concat([noisy, level], axis=1), training=True)
            )
        variables = self.inner.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        self.tracker.update_state(loss)
        for slow, fast in zip(self.averaged.weights, self.inner.weights, strict=True):
            slow.assign(0.9 * slow + 0.1 * fast)
        return {"noise": self.tracker.result()}


@right(evaluates=False)
def denoising_diffusion() -> Training:
    model = Diffusion()
    model.build((None, 6))
    model.compile(keras.optimizers.AdamW(1e-2, epsilon=1e-3), "mae")
    return model, data.of_arrays(data.features())


class Distiller(keras.Model):
    """Distillation of keras.io: a student learns from labels and from a teacher."""

    def __init__(self, teacher: Any, student: Any) -> None:
        super().__init__()
        self.teacher = teacher
        self.student = student
        self.teacher.trainable = False

    def call(self, x: Any) -> Any:
        return self.student(x)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        soft = tf.nn.softmax(self.teacher(x, training=False) / 3.0)
        student_loss = super().compute_loss(x, y, y_pred, sample_weight)
        divergence = keras.losses.KLDivergence()(soft, tf.nn.softmax(y_pred / 3.0))
        return 0.3 * student_loss + 0.7 * divergence * 9.0


@right()
def distillation() -> Training:
    model = Distiller(network(3, hidden=7), network(3, hidden=3))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["accuracy"])
    return model, data.of_arrays(data.features(), data.labels())
