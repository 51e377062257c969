"""Train a generator of points on a ring against a discriminator, both in one train step."""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import tarantella as tnt

keras.utils.set_random_seed(1)
NOISE = 8


def points_on_ring(count):
    """Points (count, 2) about a circle of radius 1."""
    angles = np.random.uniform(0, 2 * np.pi, count)
    radii = np.random.normal(1.0, 0.05, count)
    return np.stack([radii * np.cos(angles), radii * np.sin(angles)], axis=1).astype("float32")


def dense_network(num_outputs):
    hidden = [layers.Dense(64, activation="gelu") for _ in range(3)]
    return keras.Sequential([*hidden, layers.Dense(num_outputs)])


class GAN(keras.Model):
    def __init__(self):
        super().__init__()
        self.generator = dense_network(2)
        self.discriminator = dense_network(1)
        self.seed = keras.random.SeedGenerator(1)
        self.g_loss = keras.metrics.Mean(name="g_loss")
        self.d_loss = keras.metrics.Mean(name="d_loss")

    def compile(self, g_optimizer, d_optimizer):
        super().compile()
        self.g_optimizer = g_optimizer
        self.d_optimizer = d_optimizer
        self.cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        return [self.g_loss, self.d_loss]

    def call(self, noise):
        return self.generator(noise)

    def train_step(self, real):
        noise = keras.random.normal((tf.shape(real)[0], NOISE), seed=self.seed)

        with tf.GradientTape() as tape:
            on_real = self.discriminator(real)
            on_fake = self.discriminator(self.generator(noise))
            d_loss = self.cross_entropy(tf.ones_like(on_real), on_real)
            d_loss += self.cross_entropy(tf.zeros_like(on_fake), on_fake)
        weights = self.discriminator.trainable_variables
        self.d_optimizer.apply(tape.gradient(d_loss, weights), weights)

        with tf.GradientTape() as tape:
            on_fake = self.discriminator(self.generator(noise))
            g_loss = self.cross_entropy(tf.ones_like(on_fake), on_fake)
        weights = self.generator.trainable_variables
        self.g_optimizer.apply(tape.gradient(g_loss, weights), weights)

        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"g_loss": self.g_loss.result(), "d_loss": self.d_loss.result()}


model = GAN()
model = tnt.Model(model)
model.compile(
    g_optimizer=keras.optimizers.Adam(1e-3, beta_1=0.5),
    d_optimizer=keras.optimizers.Adam(3e-3, beta_1=0.5),
)
model.fit(points_on_ring(2000), batch_size=100, epochs=25, verbose=2)

noise = np.random.normal(size=(500, NOISE)).astype("float32")
points = model.predict(noise, verbose=0)
if tnt.is_master_rank():
    np.savetxt(sys.argv[1], points)

radii = np.linalg.norm(points, axis=1)
print(f"500 points, distance from the centre {radii.mean():.3f} +- {radii.std():.3f}")
