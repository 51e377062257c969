"""Training loops as users write them, from Keras' guides: serial, and with all ranks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from loop_parts import (
    batches,
    classifier,
    step_of,
    weights_of,
)


def from_scratch(distributed: bool, shares_dataset: bool, run_eagerly: bool) -> dict[str, Any]:
    """Keras' guide: loss, optimizer and metrics by hand, validation at the end of each epoch."""
    model = classifier()
    optimizer = keras.optimizers.Adam(0.02)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy()
    val_accuracy = keras.metrics.SparseCategoricalAccuracy()
    step = step_of(distributed, run_eagerly=run_eagerly)

    @step
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply(gradients, model.trainable_weights)
        accuracy.update_state(y, logits)
        return loss

    @step
    def test_step(x: Any, y: Any) -> None:
        val_accuracy.update_state(y, model(x, training=False))

    losses, results = [], []
    data = batches(distributed and shares_dataset)
    for _ in range(2):
        losses += [float(train_step(x, y)) for x, y in data]
        for x, y in data:
            test_step(x, y)
        for metric in (accuracy, val_accuracy):
            results.append(float(metric.result()))
            metric.reset_state()
    return {"weights": weights_of(model, optimizer), "losses": losses, "results": results}


def gan(distributed: bool) -> dict[str, Any]:
    """Keras' guide: two models and two optimizers in one step, which returns images."""
    keras.utils.set_random_seed(3)
    discriminator = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    generator = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(16, "tanh"), keras.layers.Reshape((4, 4, 1))]
    )
    d_optimizer, g_optimizer = keras.optimizers.Adam(0.03), keras.optimizers.SGD(0.1)
    loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)

    @step_of(distributed)
    def train_step(real_images: Any, vectors: Any) -> Any:
        generated = generator(vectors)
        with tf.GradientTape() as tape:
            on_generated, on_real = discriminator(generated), discriminator(real_images)
            d_loss = loss_fn(tf.ones_like(on_generated), on_generated)
            d_loss += loss_fn(tf.zeros_like(on_real), on_real)
        gradients = tape.gradient(d_loss, discriminator.trainable_weights)
        d_optimizer.apply(gradients, discriminator.trainable_weights)
        with tf.GradientTape() as tape:
            predictions = discriminator(generator(vectors))
            g_loss = loss_fn(tf.zeros_like(predictions), predictions)
        gradients = tape.gradient(g_loss, generator.trainable_weights)
        g_optimizer.apply(gradients, generator.trainable_weights)
        return d_loss, g_loss, generated

    results = [train_step(*both) for _ in range(2) for both in batches(distributed, (5,))]
    return {
        "weights": weights_of(discriminator, generator, d_optimizer, g_optimizer),
        "losses": [[float(d_loss), float(g_loss)] for d_loss, g_loss, _ in results],
        "images": np.concatenate([np.asarray(generated) for *_, generated in results]),
    }


def vae(distributed: bool) -> dict[str, Any]:
    """A variational autoencoder, its loss written down, its mean kept by a metric."""
    keras.utils.set_random_seed(3)
    encoder = keras.Sequential(
        [keras.Input((4, 4, 1)), keras.layers.Flatten(), keras.layers.Dense(4)]
    )
    decoder = keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(16), keras.layers.Reshape((4, 4, 1))]
    )
    optimizer = keras.optimizers.Adam(0.02)
    tracker = keras.metrics.Mean()

    @step_of(distributed)
    def train_step(x: Any, noise: Any) -> dict[str, Any]:
        with tf.GradientTape() as tape:
            mean, log_variance = tf.split(encoder(x), 2, axis=1)
            reconstruction = decoder(mean + tf.exp(0.5 * log_variance) * noise)
            error = tf.reduce_mean(tf.reduce_sum(tf.square(x - reconstruction), axis=(1, 2, 3)))
            kl = -0.5 * (1 + log_variance - tf.square(mean) - tf.exp(log_variance))
            loss = error + tf.reduce_mean(tf.reduce_sum(kl, axis=1))
        variables = encoder.trainable_weights + decoder.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        tracker.update_state(loss, sample_weight=tf.shape(x)[0])
        return {"loss": loss, "kl": tf.reduce_mean(tf.reduce_sum(kl, axis=1))}

    logs = [train_step(*both) for _ in range(2) for both in batches(distributed, (2,))]
    return {
        "weights": weights_of(encoder, decoder, optimizer),
        "logs": [[float(one["loss"]), float(one["kl"])] for one in logs],
        "mean": float(tracker.result()),
    }


def gradient_penalty(distributed: bool) -> dict[str, Any]:
    """A critic whose gradients with respect to images shall have the length one."""
    keras.utils.set_random_seed(3)
    critic = keras.Sequential(
        [
            keras.Input((4, 4, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(6, "tanh"),
            keras.layers.Dense(1),
        ]
    )
    optimizer = keras.optimizers.Adam(0.02)

    @step_of(distributed)
    def critic_step(x: Any, fake: Any) -> Any:
        with tf.GradientTape() as tape:
            mixed = x + tf.sigmoid(fake[:, :1, :1]) * (fake - x)
            with tf.GradientTape() as inner:
                inner.watch(mixed)
                score = critic(mixed, training=True)
            slopes = inner.gradient(score, mixed)
            length = tf.sqrt(tf.reduce_sum(tf.square(slopes), axis=(1, 2, 3)))
            loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(x))
            loss += 10.0 * tf.reduce_mean(tf.square(length - 1.0))
        gradients = tape.gradient(loss, critic.trainable_weights)
        optimizer.apply(gradients, critic.trainable_weights)
        return loss

    losses = [float(critic_step(*both)) for both in batches(distributed, (4, 4, 1))]
    return {"weights": weights_of(critic, optimizer), "losses": losses}
