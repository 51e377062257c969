"""Densities: flows, mixtures, diffusion, codes, discrete draws, differential equations."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .case import Training, drawn, fitted, script
from .own_step import OwnLoss, mlp


class _Coupling(layers.Layer):
    """Affine coupling behind a scaling that the first batch initialises."""

    def __init__(self, flip: bool, conditions: int) -> None:
        super().__init__(name=f"coupling_{flip:d}")
        self.flip, self.net = flip, mlp(2 + conditions, 8, 4, activation="silu")

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight((4,), "ones", name="scale")
        self.shift = self.add_weight((4,), "zeros", name="shift")
        self.is_ready = self.add_weight((), "zeros", dtype="bool", trainable=False, name="is_ready")

    def call(self, z: Any, condition: Any, training: bool = False) -> Any:
        if training:
            mean, variance = tf.nn.moments(z, [0])
            first = tf.logical_not(self.is_ready)
            scale = tf.where(first, 1 / tf.sqrt(variance + 1e-3), self.scale)
            self.shift.assign(tf.where(first, -mean * scale, self.shift))
            self.scale.assign(scale)
            self.is_ready.assign(True)
        z = z * self.scale + self.shift
        a, b = tf.split(z, 2, -1)
        a, b = (b, a) if self.flip else (a, b)
        log_scale, shift = tf.split(self.net(tf.concat([a, condition], -1)), 2, -1)
        log_scale = 2 * tf.tanh(log_scale / 2)
        b = b * tf.exp(log_scale) + shift
        log_det = tf.reduce_sum(tf.math.log(tf.abs(self.scale))) + tf.reduce_sum(log_scale, -1)
        return tf.concat([a, b], -1), log_det


@script(rtol=1e-4)
def posterior_by_coupling_flow_with_a_summary_of_sets() -> Training:
    class Posterior(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.each = keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(4)])
            self.all = mlp(4, 6, 3)
            self.flow = [_Coupling(bool(i % 2), 3) for i in range(2)]

        def summary(self, x: Any) -> Any:
            mask = tf.cast(x[..., :1] > -1.5, tf.float32)
            pooled = tf.reduce_sum(self.each(x) * mask, 1) / (tf.reduce_sum(mask, 1) + 1e-3)
            return self.all(pooled)

        def call(self, data: Any, training: bool = False) -> Any:
            z, x = data["parameters"], data["data"]
            summary = self.summary(x)
            total = 0.0
            for coupling in self.flow:
                z, log_det = coupling(z, summary, training=training)
                total += log_det
            return z, total, summary

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            z, log_det, summary = self(data, training=training)
            likelihood = 0.5 * tf.reduce_sum(z**2, -1) - log_det
            fixed = tf.random.stateless_normal(tf.shape(summary), [1, 2])
            discrepancy = self.discrepancy(summary, fixed)
            loss = tf.reduce_mean(likelihood) + discrepancy
            return loss, {"discrepancy": discrepancy}

        def discrepancy(self, a: Any, b: Any) -> Any:
            def kernel(a: Any, b: Any) -> Any:
                d = tf.reduce_sum((a[:, None] - b[None]) ** 2, -1)
                return tf.add_n([tf.reduce_mean(tf.exp(-d / s)) for s in (0.5, 2.0, 8.0)])

            return kernel(a, a) + kernel(b, b) - 2 * kernel(a, b)

    model = Posterior()
    model.compile(optimizer=keras.optimizers.Adam(0.01, clipnorm=1.5))
    return model, fitted({"parameters": drawn(4), "data": drawn(5, 3, seed=1)})


@script(rtol=1e-4)
def rational_quadratic_splines() -> Training:
    class Splines(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(1, 8, 5 + 5 + 4, activation="tanh")

        def call(self, x: Any) -> Any:
            first, second = x[:, :1], tf.clip_by_value(x[:, 1], -2.9, 2.9)
            out = self.net(first)
            widths = 6 * (0.01 + 0.95 * tf.nn.softmax(out[:, :5]))
            heights = 6 * (0.01 + 0.95 * tf.nn.softmax(out[:, 5:10]))
            slopes = tf.pad(tf.nn.softplus(out[:, 10:]), [[0, 0], [1, 1]], constant_values=1.0)
            left = tf.pad(tf.cumsum(widths, -1), [[0, 0], [1, 0]]) - 3
            low = tf.pad(tf.cumsum(heights, -1), [[0, 0], [1, 0]]) - 3
            place = tf.searchsorted(left, second[:, None], side="right") - 1
            place = tf.clip_by_value(place, 0, 4)

            def at(values: Any, offset: int = 0) -> Any:
                return tf.gather(values, place + offset, batch_dims=1)[:, 0]

            share = (second - at(left)) / at(widths)
            slope, between = at(heights) / at(widths), share * (1 - share)
            d0, d1 = at(slopes), at(slopes, 1)
            bottom = slope + (d0 + d1 - 2 * slope) * between
            y = at(low) + at(heights) * (slope * share**2 + d0 * between) / bottom
            top = slope**2 * (d1 * share**2 + 2 * slope * between + d0 * (1 - share) ** 2)
            return tf.stack([first[:, 0], y], -1), tf.math.log(top) - 2 * tf.math.log(bottom)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            z, log_det = self(data)
            return tf.reduce_mean(0.5 * tf.reduce_sum(z**2, -1) - log_det), {}

    model = Splines()
    model.compile(optimizer=keras.optimizers.RMSprop(0.003, centered=True))
    return model, fitted(drawn(2))


@script(rtol=1e-4)
def adaptive_steps_of_a_neural_differential_equation() -> Training:
    class Flow(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.field, self.head = mlp(3, 6, 2, activation="tanh"), layers.Dense(1)

        def slope(self, t: Any, y: Any) -> Any:
            times = tf.fill([tf.shape(y)[0], 1], t)
            return self.field(tf.concat([y, times], -1))

        def call(self, x: Any) -> Any:
            def turn(t: Any, h: Any, y: Any, count: Any) -> Any:
                h = tf.minimum(h, 1.0 - t)
                k1 = self.slope(t, y)
                k2 = self.slope(t + h, y + h * k1)
                step = y + h * (k1 + k2) / 2
                error = tf.sqrt(tf.reduce_mean((h * (k2 - k1) / 2) ** 2)) / 0.02
                error = tf.stop_gradient(tf.maximum(error, 1e-3))
                accept = error <= 1.0
                factor = tf.clip_by_value(0.9 / tf.sqrt(error), 0.3, 3.0)
                return (
                    tf.where(accept, t + h, t),
                    h * factor,
                    tf.where(accept, step, y),
                    count + 1,
                )

            *_, y, count = tf.while_loop(
                lambda t, h, y, count: (t < 1.0 - 1e-5) & (count < 30),
                turn,
                (0.0, 0.1, x, 0),
            )
            return self.head(y), count

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, y = data
            out, count = self(x)
            return tf.reduce_mean((out - y) ** 2), {"steps": tf.cast(count, tf.float32)}

        def predict_step(self, data: Any) -> Any:
            return self(data[0] if isinstance(data, tuple) else data)[0]

    model = Flow()
    model.compile(optimizer=keras.optimizers.Adam(0.003))
    return model, fitted(drawn(2), drawn(1, seed=3))


@script()
def mixture_of_normals_with_draws() -> Training:
    def loss(y: Any, out: Any) -> Any:
        logits, mean, log_scale = ops.split(out, 3, axis=-1)
        z = (y - mean) / ops.exp(log_scale)
        normal = -0.5 * z**2 - log_scale - 0.5 * math.log(2 * math.pi)
        return -ops.logsumexp(ops.log_softmax(logits) + normal, axis=-1)

    class Drawing(keras.Model):
        def predict_step(self, data: Any) -> Any:
            out = self(data[0] if isinstance(data, tuple) else data, training=False)
            logits, mean, log_scale = tf.split(out, 3, -1)
            kind = tf.random.stateless_categorical(logits, 4, [3, 4])
            z = tf.random.stateless_normal(tf.shape(kind), [5, 6])
            chosen_mean = tf.gather(mean, kind, batch_dims=1)
            return chosen_mean + z * tf.exp(tf.gather(log_scale, kind, batch_dims=1))

    x = keras.Input((3,))
    model = Drawing(x, layers.Dense(9)(layers.Dense(8, activation="tanh")(x)))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss)
    return model, fitted(drawn(3), drawn(1, seed=2))


@script(evaluates=False)
def denoising_with_averaged_weights_and_guidance() -> Training:
    class Diffusion(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp(6 + 4 + 3, 12, 6, activation="silu")
            self.average = keras.models.clone_model(self.net)
            self.average.set_weights(self.net.get_weights())
            self.average.trainable = False
            beta = np.linspace(0.02, 0.3, 10)
            self.kept = tf.constant(np.cumprod(1 - beta), tf.float32)
            self.beta = tf.constant(beta, tf.float32)
            self.generator = keras.random.SeedGenerator(9)
            self.tracker = keras.metrics.Mean(name="loss")
            self.by_step = self.add_weight((10, 2), "zeros", trainable=False, name="by_step")

        def noise_of(self, net: Any, x: Any, t: Any, label: Any) -> Any:
            angle = tf.cast(t, tf.float32)[:, None] * tf.constant([1.0, 0.1])
            embedded = tf.concat([tf.sin(angle), tf.cos(angle)], -1)
            return net(tf.concat([x, embedded, tf.one_hot(label, 3)], -1))

        def call(self, x: Any) -> Any:
            return self.net(tf.pad(x, [[0, 0], [0, 7]]))

        def train_step(self, data: Any) -> Any:
            x, label = data
            rows = tf.shape(x)[0]
            t = keras.random.randint((rows,), 0, 10, seed=self.generator)
            noise = keras.random.normal(tf.shape(x), seed=self.generator)
            drop = keras.random.uniform((rows,), seed=self.generator) < 0.2
            label = tf.where(drop, 2, label)
            kept = tf.gather(self.kept, t)[:, None]
            with tf.GradientTape() as tape:
                given = self.noise_of(
                    self.net, tf.sqrt(kept) * x + tf.sqrt(1 - kept) * noise, t, label
                )
                each = tf.reduce_mean((given - noise) ** 2, -1)
                snr = tf.minimum(kept[:, 0] / (1 - kept[:, 0]), 5.0)
                loss = tf.reduce_mean(each * snr / (snr + 1))
            variables = self.net.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            for old, new in zip(self.average.weights, self.net.weights, strict=True):
                old.assign_add(0.1 * (new - old))
            sums = tf.math.unsorted_segment_sum(tf.stack([each, tf.ones_like(each)], -1), t, 10)
            self.by_step.assign_add(sums)
            self.tracker.update_state(each)
            return {"loss": self.tracker.result()}

        def predict_step(self, data: Any) -> Any:
            x = data[0] if isinstance(data, tuple) else data
            rows = tf.shape(x)[0]
            x = tf.random.stateless_normal(tf.shape(x), [7, 8])
            label = tf.zeros([rows], tf.int32)
            for t in reversed(range(10)):
                times = tf.fill([rows], t)
                with_label = self.noise_of(self.average, x, times, label)
                without = self.noise_of(self.average, x, times, label + 2)
                noise = without + 2.0 * (with_label - without)
                kept, beta = self.kept[t], self.beta[t]
                x = (x - beta / tf.sqrt(1 - kept) * noise) / tf.sqrt(1 - beta)
                if t:
                    x += tf.sqrt(beta) * tf.random.stateless_normal(tf.shape(x), [t, 1])
            return x

    model = Diffusion()
    model.compile(optimizer=keras.optimizers.AdamW(0.003, use_ema=True, ema_momentum=0.9))
    labels = np.random.default_rng(4).integers(0, 2, 23).astype("int32")
    return model, fitted(drawn(6), labels)


_own = {"evaluates": False}


@script(**_own, gathers="GatherV2")
def codebook_by_moving_averages_with_dead_codes() -> Training:
    class Quantised(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = keras.Sequential([layers.Conv1D(3, 3, padding="same"), layers.ReLU()])
            self.decoder = layers.Conv1DTranspose(2, 3, padding="same")
            self.codes = self.add_weight((5, 3), "random_normal", trainable=False, name="codes")
            self.sizes = self.add_weight((5,), "ones", trainable=False, name="sizes")
            self.sums = self.add_weight((5, 3), "random_normal", trainable=False, name="sums")
            self.generator = keras.random.SeedGenerator(2)

        def places(self, z: Any) -> Any:
            flat = tf.reshape(z, [-1, 3])
            d = tf.reduce_sum(flat**2, 1, keepdims=True) + tf.reduce_sum(self.codes**2, 1)
            d -= 2 * tf.matmul(flat, tf.convert_to_tensor(self.codes), transpose_b=True)
            return flat, tf.argmin(d, 1)

        def call(self, x: Any) -> Any:
            z = self.encoder(x)
            _, place = self.places(z)
            q = tf.reshape(tf.gather(tf.convert_to_tensor(self.codes), place), tf.shape(z))
            return self.decoder(z + tf.stop_gradient(q - z)), z, q

        def train_step(self, data: Any) -> Any:
            with tf.GradientTape() as tape:
                out, z, q = self(data)
                loss = tf.reduce_mean((out - data) ** 2) / tf.math.reduce_variance(data)
                loss += 0.25 * tf.reduce_mean((tf.stop_gradient(q) - z) ** 2)
            variables = self.trainable_variables
            self.optimizer.apply(tape.gradient(loss, variables), variables)
            flat, place = self.places(z)
            hot = tf.one_hot(place, 5)
            self.sizes.assign(0.9 * self.sizes + 0.1 * tf.reduce_sum(hot, 0))
            self.sums.assign(0.9 * self.sums + 0.1 * tf.matmul(hot, flat, transpose_a=True))
            total = tf.reduce_sum(self.sizes)
            sizes = (self.sizes + 1e-3) / (total + 5e-3) * total
            fresh = tf.gather(
                flat, keras.random.shuffle(tf.range(tf.shape(flat)[0]), seed=self.generator)[:5]
            )
            dead = (self.sizes < 0.5)[:, None]
            self.codes.assign(tf.where(dead, fresh, self.sums / sizes[:, None]))
            use = tf.reduce_mean(hot, 0)
            return {
                "loss": loss,
                "perplexity": tf.exp(-tf.reduce_sum(use * tf.math.log(use + 1e-9))),
            }

    model = Quantised()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(drawn(6, 2))


@script()
def relaxed_categories_with_falling_temperature() -> Training:
    class Discrete(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(6, 8, 12), mlp(12, 8, 6)
            self.generator = keras.random.SeedGenerator(8)
            self.temperature = self.add_weight((), "ones", trainable=False, name="temperature")

        def call(self, x: Any) -> Any:
            logits = tf.reshape(self.encoder(x), [-1, 3, 4])
            u = keras.random.uniform(tf.shape(logits), 1e-4, 1.0, seed=self.generator)
            y = tf.nn.softmax((logits - tf.math.log(-tf.math.log(u))) / self.temperature)
            hard = tf.one_hot(tf.argmax(y, -1), 4)
            y = tf.stop_gradient(hard - y) + y
            return self.decoder(tf.reshape(y, [-1, 12])), logits

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            out, logits = self(data)
            q = tf.nn.softmax(logits)
            divergence = tf.reduce_sum(q * (tf.nn.log_softmax(logits) + math.log(4)), [1, 2])
            error = tf.reduce_sum((out - data) ** 2, -1)
            return tf.reduce_mean(error + 0.1 * divergence), {"kl": tf.reduce_mean(divergence)}

        def after(self, data: Any) -> None:
            self.temperature.assign(tf.maximum(0.5, 0.9 * self.temperature))

    model = Discrete()
    model.compile(optimizer=keras.optimizers.Adamax(0.01))
    return model, fitted(drawn(6))
