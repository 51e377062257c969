"""Generative models: autoencoders, adversaries, diffusion, flows."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import FIT, adam, images, labels, numbers, shown


def _dense(inputs: int, outputs: int, hidden: int = 6) -> Any:
    first = layers.Dense(hidden, "tanh")
    return keras.Sequential([keras.Input((inputs,)), first, layers.Dense(outputs)])


class Trained(keras.Model):
    """A model whose steps update weights, and track losses by name."""

    def __init__(self, *losses: str) -> None:
        super().__init__()
        self.trackers = {name: keras.metrics.Mean(name=name) for name in losses}

    @property
    def metrics(self) -> list[Any]:
        return list(self.trackers.values())

    def track(self, **losses: Any) -> dict[str, Any]:
        for name, loss in losses.items():
            self.trackers[name].update_state(loss)
        return {name: tracker.result() for name, tracker in self.trackers.items()}


def update(optimizer: Any, tape: Any, loss: Any, weights: Any) -> None:
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))


@example("generative", "variational autoencoder with a train_step")
def variational_autoencoder(tnt: Any) -> Values:
    class Sampling(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.seeds = keras.random.SeedGenerator(1)

        def call(self, both: Any) -> Any:
            mean, log_variance = both
            noise = keras.random.normal(keras.ops.shape(mean), seed=self.seeds)
            return mean + keras.ops.exp(0.5 * log_variance) * noise

    class Variational(Trained):
        def __init__(self, encoder: Any, decoder: Any) -> None:
            super().__init__("loss", "reconstruction", "divergence")
            self.encoder, self.decoder = encoder, decoder

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                mean, log_variance, code = self.encoder(data)
                errors = keras.losses.binary_crossentropy(data, self.decoder(code))
                reconstruction = tf.reduce_mean(tf.reduce_sum(errors, axis=(1, 2)))
                divergence = -0.5 * (1 + log_variance - mean**2 - tf.exp(log_variance))
                divergence = tf.reduce_mean(tf.reduce_sum(divergence, axis=1))
                loss = reconstruction + divergence
            update(self.optimizer, tape, loss, self.trainable_weights)
            return self.track(loss=loss, reconstruction=reconstruction, divergence=divergence)

    inputs = keras.Input((8, 8, 1))
    x = layers.Flatten()(layers.Conv2D(3, 3, strides=2, activation="relu")(inputs))
    mean, log_variance = layers.Dense(2)(x), layers.Dense(2)(x)
    encoder = keras.Model(inputs, [mean, log_variance, Sampling()([mean, log_variance])])
    decoder = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(4 * 4 * 2, activation="relu"),
            layers.Reshape((4, 4, 2)),
            layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
        ]
    )
    model = tnt.Model(Variational(encoder, decoder))
    model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-3))
    history = model.fit(images(), **FIT)
    return shown(encoder, decoder, history=history, image=decoder.predict(np.zeros((1, 2))))


class Adversaries(Trained):
    """Two networks with an optimizer each."""

    def __init__(self, generator: Any, critic: Any) -> None:
        super().__init__("critic", "generator")
        self.generator, self.critic = generator, critic
        self.seeds = keras.random.SeedGenerator(3)

    def compile(self, critic_optimizer: Any, generator_optimizer: Any) -> None:
        super().compile()
        self.critic_optimizer = critic_optimizer
        self.generator_optimizer = generator_optimizer

    def noise(self, x: Any) -> Any:
        return keras.random.normal((tf.shape(x)[0], 3), seed=self.seeds)


@example("generative", "DCGAN: two optimizers in one train_step, images after training")
def generated_faces(tnt: Any) -> Values:
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    class Convolutional(Adversaries):
        def train_step(self, real: Any) -> dict[str, Any]:
            fake = self.generator(self.noise(real))
            both = tf.concat([fake, real], axis=0)
            truth = tf.concat([tf.ones_like(fake[:, 0, 0]), tf.zeros_like(real[:, 0, 0])], axis=0)
            with tf.GradientTape() as tape:
                critic_loss = loss_fn(truth, self.critic(both))
            update(self.critic_optimizer, tape, critic_loss, self.critic.trainable_weights)
            with tf.GradientTape() as tape:
                scores = self.critic(self.generator(self.noise(real)))
                generator_loss = loss_fn(tf.zeros_like(scores), scores)
            update(self.generator_optimizer, tape, generator_loss, self.generator.trainable_weights)
            return self.track(critic=critic_loss, generator=generator_loss)

    critic = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(3, 4, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    generator = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(32),
            layers.Reshape((4, 4, 2)),
            layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="sigmoid"),
        ]
    )
    model = tnt.Model(Convolutional(generator, critic))
    model.compile(adam(), adam())
    history = model.fit(images(), **FIT)
    return shown(generator, critic, history=history, faces=generator(numbers(3)[:2]))


@example("generative", "Wasserstein GAN with a gradient penalty, several critic steps")
def gradient_penalty(tnt: Any) -> Values:
    class Wasserstein(Adversaries):
        def penalty(self, real: Any, fake: Any) -> Any:
            rate = keras.random.uniform((tf.shape(real)[0], 1), seed=self.seeds)
            between = real + rate * (fake - real)
            with tf.GradientTape() as tape:
                tape.watch(between)
                scores = self.critic(between, training=True)
            slopes = tf.sqrt(tf.reduce_sum(tape.gradient(scores, between) ** 2, axis=1) + 1e-6)
            return tf.reduce_mean((slopes - 1.0) ** 2)

        def train_step(self, real: Any) -> dict[str, Any]:
            for _ in range(2):
                with tf.GradientTape() as tape:
                    fake = self.generator(self.noise(real))
                    scores = tf.reduce_mean(self.critic(fake)) - tf.reduce_mean(self.critic(real))
                    critic_loss = scores + 10.0 * self.penalty(real, fake)
                update(self.critic_optimizer, tape, critic_loss, self.critic.trainable_weights)
            with tf.GradientTape() as tape:
                generator_loss = -tf.reduce_mean(self.critic(self.generator(self.noise(real))))
            update(self.generator_optimizer, tape, generator_loss, self.generator.trainable_weights)
            return self.track(critic=critic_loss, generator=generator_loss)

    generator, critic = _dense(3, 4), _dense(4, 1)
    model = tnt.Model(Wasserstein(generator, critic))
    model.compile(keras.optimizers.RMSprop(1e-3, epsilon=1e-3), keras.optimizers.SGD(0.01))
    return shown(generator, critic, history=model.fit(numbers(4), **FIT))


@example("generative", "conditional GAN: classes go into both networks")
def conditional_adversaries(tnt: Any) -> Values:
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    class Conditional(Adversaries):
        def generated(self, real: Any, classes: Any) -> Any:
            return self.generator(tf.concat([self.noise(real), classes], axis=1))

        def train_step(self, data: Any) -> dict[str, Any]:
            real, classes = data
            fake = self.generated(real, classes)
            rows = tf.concat([tf.concat([each, classes], axis=1) for each in (fake, real)], axis=0)
            truth = tf.concat([tf.ones_like(fake[:, :1]), tf.zeros_like(real[:, :1])], axis=0)
            with tf.GradientTape() as tape:
                critic_loss = loss_fn(truth, self.critic(rows))
            update(self.critic_optimizer, tape, critic_loss, self.critic.trainable_weights)
            with tf.GradientTape() as tape:
                fake = self.generated(real, classes)
                scores = self.critic(tf.concat([fake, classes], axis=1))
                generator_loss = loss_fn(tf.zeros_like(scores), scores)
            update(self.generator_optimizer, tape, generator_loss, self.generator.trainable_weights)
            return self.track(critic=critic_loss, generator=generator_loss)

    generator, critic = _dense(6, 4), _dense(7, 1)
    model = tnt.Model(Conditional(generator, critic))
    model.compile(adam(), adam())
    classes = keras.utils.to_categorical(labels(), 3).astype("float32")
    return shown(generator, critic, history=model.fit(numbers(4), classes, **FIT))


@example("generative", "denoising diffusion with a network of averaged weights")
def denoising_diffusion(tnt: Any) -> Values:
    class Diffusion(Trained):
        def __init__(self) -> None:
            super().__init__("noise")
            self.normalizer = layers.Normalization()
            self.network, self.averaged = _dense(5, 4), _dense(5, 4)
            self.averaged.set_weights(self.network.get_weights())
            self.seeds = keras.random.SeedGenerator(4)

        def call(self, x: Any) -> Any:
            return self.averaged(tf.concat([x, tf.zeros_like(x[:, :1])], axis=1))

        def train_step(self, rows: Any) -> dict[str, Any]:
            rows = self.normalizer(rows)
            noise = keras.random.normal((tf.shape(rows)[0], 4), seed=self.seeds)
            time = keras.random.uniform((tf.shape(rows)[0], 1), seed=self.seeds)
            angle = 0.1 + 1.4 * time
            noisy = tf.cos(angle) * rows + tf.sin(angle) * noise
            with tf.GradientTape() as tape:
                predicted = self.network(tf.concat([noisy, tf.sin(angle) ** 2], axis=1))
                loss = self.compute_loss(y=noise, y_pred=predicted)
            update(self.optimizer, tape, loss, self.network.trainable_weights)
            for slow, fast in zip(self.averaged.weights, self.network.weights, strict=True):
                slow.assign(0.9 * slow + 0.1 * fast)
            return self.track(noise=loss)

    inner = Diffusion()
    inner.normalizer.adapt(numbers(4))
    model = tnt.Model(inner)
    model.compile(keras.optimizers.AdamW(0.01, epsilon=1e-3), keras.losses.MeanAbsoluteError())
    history = model.fit(numbers(4), **FIT)
    return shown(inner.network, inner.averaged, history=history)


@example("generative", "real-valued normalizing flow (RealNVP)")
def normalizing_flow(tnt: Any) -> Values:
    class Flow(Trained):
        def __init__(self) -> None:
            super().__init__("loss")
            self.scales = [_dense(4, 4, 5) for _ in range(2)]
            self.shifts = [_dense(4, 4, 5) for _ in range(2)]
            self.masks = np.array([[0, 1, 0, 1], [1, 0, 1, 0]], "float32")

        def call(self, x: Any) -> Any:
            log_determinant = tf.zeros_like(x[:, 0])
            for scale, shift, mask in zip(self.scales, self.shifts, self.masks, strict=True):
                kept = x * mask
                log_scale = tf.tanh(scale(kept)) * (1 - mask)
                x = kept + (1 - mask) * (x * tf.exp(log_scale) + shift(kept))
                log_determinant += tf.reduce_sum(log_scale, axis=1)
            return x, log_determinant

        def likelihood(self, x: Any) -> Any:
            code, log_determinant = self(x)
            return -tf.reduce_mean(log_determinant - 0.5 * tf.reduce_sum(code**2, axis=1))

        def train_step(self, data: Any) -> dict[str, Any]:
            with tf.GradientTape() as tape:
                loss = self.likelihood(data)
            update(self.optimizer, tape, loss, self.trainable_weights)
            return self.track(loss=loss)

        def test_step(self, data: Any) -> dict[str, Any]:
            return self.track(loss=self.likelihood(data))

    model = tnt.Model(Flow())
    model.compile(adam())
    history = model.fit(numbers(4), validation_split=0.2, **FIT)
    return shown(model, history=history)


@example("generative", "PixelCNN: convolutions that see only pixels above and to the left")
def pixel_cnn(tnt: Any) -> Values:
    class MaskedConvolution(layers.Layer):
        def __init__(self, filters: int, sees_itself: bool) -> None:
            super().__init__()
            self.convolution = layers.Conv2D(filters, 3, padding="same")
            self.sees_itself = sees_itself

        def build(self, shape: Any) -> None:
            self.convolution.build(shape)
            mask = np.zeros(self.convolution.kernel.shape, "float32")
            mask[:1] = mask[1, :1] = 1.0
            mask[1, 1] = float(self.sees_itself)
            self.mask = tf.constant(mask)

        def call(self, x: Any) -> Any:
            kernel = self.convolution.kernel * self.mask
            return tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME") + self.convolution.bias)

    inputs = keras.Input((8, 8, 1))
    x = MaskedConvolution(3, sees_itself=False)(inputs)
    x = layers.add([x, MaskedConvolution(3, sees_itself=True)(x)])
    model = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy")
    bits = (images() > 0.5).astype("float32")
    history = model.fit(bits, bits, **FIT)
    return shown(model, history=history, pixels=model.predict(bits, verbose=0))


@example("generative", "vector-quantised autoencoder (VQ-VAE) with a straight-through estimator")
def vector_quantised_autoencoder(tnt: Any) -> Values:
    class Quantiser(layers.Layer):
        def build(self, shape: Any) -> None:
            self.codes = self.add_weight(shape=(4, shape[-1]), initializer="random_uniform")

        def call(self, x: Any) -> Any:
            distances = tf.reduce_sum((x[..., None, :] - self.codes) ** 2, axis=-1)
            quantised = tf.gather(self.codes, tf.argmin(distances, axis=-1))
            self.add_loss(0.25 * tf.reduce_mean((tf.stop_gradient(quantised) - x) ** 2))
            self.add_loss(tf.reduce_mean((quantised - tf.stop_gradient(x)) ** 2))
            return x + tf.stop_gradient(quantised - x)

    inputs = keras.Input((8, 8, 1))
    x = Quantiser()(layers.Conv2D(2, 4, strides=4)(inputs))
    model = keras.Model(inputs, layers.Conv2DTranspose(1, 4, strides=4)(x))
    model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(0.05), "mse")
    history = model.fit(images(), images(), **FIT)
    return shown(model, history=history, images=model.predict(images(), verbose=0))
