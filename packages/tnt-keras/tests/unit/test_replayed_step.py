"""A whole training step by parts gives the gradients and states of the serial one."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.probe.runs.batch_moments import BatchMoments
from tnt_keras.probe.runs.draws import Draws
from tnt_keras.probe.runs.variable_changes import VariableChanges

N = 5
LAYER = keras.layers


class Sampling(LAYER.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, moments: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        mean, log_variance = moments
        return mean + keras.ops.exp(log_variance / 2) * keras.random.normal(
            keras.ops.shape(mean), seed=self.seed_generator
        )


class Adversarial(keras.Model):
    """Latent noise, real and made rows one after the other, noise on labels, two optimizers."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.critic = encoder(), critic()

    def losses_of(self, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        made = self.encoder(x, training=True) + tf.random.normal(tf.shape(x))
        both = self.critic(tf.concat([made, x], 0), training=True)
        labels = tf.concat([tf.ones_like(x[:, :1]), tf.zeros_like(x[:, :1])], 0)
        labels += 0.05 * tf.random.uniform(tf.shape(labels))
        return tf.reduce_mean((labels - both) ** 2), tf.reduce_mean((made - x) ** 2)

    def call(self, x: tf.Tensor) -> tf.Tensor:
        return self.critic(self.encoder(x))


def encoder() -> keras.Model:
    x = keras.Input((6,))
    h = LAYER.GaussianNoise(0.1)(LAYER.Dense(8)(x))
    h = LAYER.Dropout(0.3)(keras.ops.relu(LAYER.BatchNormalization()(h)))
    z = Sampling()((LAYER.Dense(4)(h), LAYER.Dense(4)(h)))
    return keras.Model(x, LAYER.Dense(6)(z))


def critic() -> keras.Model:
    return keras.Sequential([LAYER.Dense(7), LAYER.AlphaDropout(0.3), LAYER.Dense(1)])


def gradients(model: Adversarial, x: np.ndarray) -> list[np.ndarray]:
    with tf.GradientTape() as tape:
        loss = tf.add_n(model.losses_of(tf.constant(x)))
    return [g.numpy() for g in tape.gradient(loss, model.trainable_variables)]


@pytest.mark.parametrize("ranks", [2, 3])
def test_gradients_of_parts_add_up_to_the_serial_ones_and_all_is_given_back(ranks: int) -> None:
    keras.utils.set_random_seed(2)
    model = Adversarial()
    x = np.random.normal(1.0, 1.0, (N, 6)).astype(np.float32)
    model(x)
    draws, moments, changes = Draws(), BatchMoments(), VariableChanges()

    def states() -> list[Any]:
        return [w.numpy().tobytes() for w in model.weights]

    before = states()
    with changes.watching(), draws.recording(N), moments.recording():
        serial = gradients(model, x)
    after = states()
    assert after != before
    total = [np.zeros_like(g) for g in serial]
    for rank in range(ranks):
        rows = np.arange(rank, N, ranks)
        changes.restore()
        with changes.watching(), draws.replaying(rows), moments.replaying():
            part = gradients(model, x[rows])
        assert draws.unserved == []
        assert states() == after
        total = [t + len(rows) / N * g for t, g in zip(total, part, strict=True)]
    for expected, found in zip(serial, total, strict=True):
        np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6 * np.abs(expected).max())
    changes.restore()
    assert states() == before
