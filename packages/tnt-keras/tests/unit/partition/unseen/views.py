"""Self-supervised learning from views: queues, teachers, centres, correlations over the batch."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf
from keras import layers, ops

from .case import Training, drawn, fitted, script
from .own_step import OwnLoss, mlp


def _views(x: Any, generator: Any) -> tuple[Any, Any]:
    noise = [0.1 * keras.random.normal(tf.shape(x), seed=generator) for _ in range(2)]
    return x + noise[0], x + noise[1]


class _TwoViews(OwnLoss):
    def __init__(self, encoder: Any, **more: Any) -> None:
        super().__init__()
        self.encoder = encoder
        self.generator = keras.random.SeedGenerator(5)
        self.prepare(**more)

    def prepare(self) -> None:
        pass

    def call(self, x: Any, training: bool = False) -> Any:
        return self.encoder(x, training=training)

    def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
        first, second = _views(data, self.generator)
        return self.contrast(first, second, training)


def _compiled(model: Any, optimizer: Any = "sgd", x: Any = None) -> Training:
    model.compile(optimizer=optimizer)
    return model, fitted(drawn(6) if x is None else x)


def _follow(teacher: Any, student: Any, rate: float) -> None:
    for old, new in zip(teacher.weights, student.weights, strict=True):
        old.assign(rate * old + (1 - rate) * new)


@script(gathers="TensorScatterUpdate")
def momentum_contrast_with_a_queue() -> Training:
    class Contrast(_TwoViews):
        def prepare(self) -> None:
            self.momentum = keras.models.clone_model(self.encoder)
            self.momentum.set_weights(self.encoder.get_weights())
            self.momentum.trainable = False
            self.queue = self.add_weight((16, 4), "random_normal", trainable=False, name="queue")
            self.place = self.add_weight((), "zeros", dtype="int32", trainable=False, name="place")

        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            q = ops.normalize(self.encoder(first), axis=-1)
            k = tf.stop_gradient(ops.normalize(self.momentum(second), axis=-1))
            positive = tf.reduce_sum(q * k, -1, keepdims=True)
            negative = tf.matmul(q, tf.convert_to_tensor(self.queue), transpose_b=True)
            logits = tf.concat([positive, negative], 1) / 0.2
            labels = tf.zeros([tf.shape(logits)[0]], tf.int32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            if training:
                rows = tf.shape(k)[0]
                places = (self.place + tf.range(rows)) % 16
                queue = tf.tensor_scatter_nd_update(self.queue, places[:, None], k)
                self.queue.assign(queue)
                self.place.assign((self.place + rows) % 16)
            accuracy = tf.reduce_mean(tf.cast(tf.argmax(logits, 1) == 0, tf.float32))
            return tf.reduce_mean(losses), {"accuracy": accuracy}

        def after(self, data: Any) -> None:
            _follow(self.momentum, self.encoder, 0.9)

    return _compiled(Contrast(mlp(6, 8, 4)), keras.optimizers.SGD(0.1, momentum=0.9))


@script()
def bootstrapped_latents_with_a_cosine_teacher() -> Training:
    class Bootstrap(_TwoViews):
        def prepare(self) -> None:
            self.target = keras.models.clone_model(self.encoder)
            self.target.trainable = False
            self.predictor = mlp(4, 8, 4)
            self.steps = self.add_weight((), "zeros", trainable=False, name="steps")

        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            def regression(a: Any, b: Any) -> Any:
                p = tf.math.l2_normalize(self.predictor(self.encoder(a, training=training)), -1)
                z = tf.math.l2_normalize(tf.stop_gradient(self.target(b, training=training)), -1)
                return 2 - 2 * tf.reduce_sum(p * z, -1)

            return tf.reduce_mean(regression(first, second) + regression(second, first)), {}

        def after(self, data: Any) -> None:
            self.steps.assign_add(1.0)
            rate = 1 - 0.1 * (tf.cos(3.14159 * tf.minimum(self.steps / 10.0, 1.0)) + 1) / 2
            _follow(self.target, self.encoder, rate)

    encoder = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.LayerNormalization(), layers.Dense(4)]
    )
    return _compiled(Bootstrap(encoder), keras.optimizers.Adam(0.01))


@script()
def self_distillation_with_centring_and_several_crops() -> Training:
    class Distillation(_TwoViews):
        def prepare(self) -> None:
            self.teacher = keras.models.clone_model(self.encoder)
            self.teacher.trainable = False
            self.centre = self.add_weight((1, 5), "zeros", trainable=False, name="centre")

        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            crops = tf.concat([first, second, first[:, ::-1], 0.5 * second], 0)
            student = tf.split(self.encoder(crops) / 0.1, 4, axis=0)
            teacher = self.teacher(tf.concat([first, second], 0))
            sharp = tf.split(tf.nn.softmax((teacher - self.centre) / 0.04), 2, axis=0)
            losses = [
                tf.reduce_mean(-tf.reduce_sum(q * tf.nn.log_softmax(p), -1))
                for i, q in enumerate(sharp)
                for j, p in enumerate(student)
                if i != j
            ]
            if training:
                mean = tf.reduce_mean(teacher, 0, keepdims=True)
                self.centre.assign(0.9 * self.centre + 0.1 * mean)
            return tf.add_n(losses) / len(losses), {"entropy": tf.reduce_mean(sharp[0] ** 2)}

        def after(self, data: Any) -> None:
            _follow(self.teacher, self.encoder, 0.99)

    return _compiled(Distillation(mlp(6, 8, 5)), keras.optimizers.AdamW(0.01, clipnorm=1.0))


@script()
def variance_invariance_covariance() -> Training:
    class Regularised(_TwoViews):
        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            a, b = self.encoder(first), self.encoder(second)
            count = tf.cast(tf.shape(a)[0], tf.float32)

            def spread(z: Any) -> Any:
                z = z - tf.reduce_mean(z, 0)
                deviation = tf.sqrt(tf.reduce_sum(z**2, 0) / (count - 1) + 1e-4)
                covariance = tf.matmul(z, z, transpose_a=True) / (count - 1)
                off = tf.reduce_sum(covariance**2) - tf.reduce_sum(
                    tf.linalg.diag_part(covariance) ** 2
                )
                return 25 * tf.reduce_mean(tf.nn.relu(1 - deviation)) + off / 4

            invariance = tf.reduce_mean((a - b) ** 2)
            return 25 * invariance + spread(a) + spread(b), {"invariance": invariance}

    return _compiled(Regularised(mlp(6, 8, 4)), keras.optimizers.SGD(0.003))


@script()
def barlow_twins() -> Training:
    class Twins(_TwoViews):
        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            def standardised(z: Any) -> Any:
                return (z - tf.reduce_mean(z, 0)) / (tf.math.reduce_std(z, 0) + 1e-2)

            a = standardised(self.encoder(first, training=training))
            b = standardised(self.encoder(second, training=training))
            rows = tf.cast(tf.shape(a)[0], a.dtype)
            c = tf.einsum("ni,nj->ij", a, b) / rows
            on = tf.linalg.diag_part(c)
            off = tf.linalg.set_diag(c, tf.zeros_like(on))
            return tf.reduce_sum((1 - on) ** 2) + 5e-3 * tf.reduce_sum(off**2), {}

    return _compiled(Twins(mlp(6, 8, 4, activation="tanh")), keras.optimizers.SGD(0.01))


@script(rtol=2e-4, gathers="StridedSlice")
def contrast_of_all_pairs_behind_batch_normalization() -> Training:
    class Contrast(_TwoViews):
        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            z = self.encoder(tf.concat([first, second], 0), training=training)
            z = tf.math.l2_normalize(z, -1)
            rows = tf.shape(first)[0]
            similar = tf.matmul(z, z, transpose_b=True) / 0.5
            similar -= 1e9 * tf.eye(2 * rows)
            labels = tf.concat([tf.range(rows) + rows, tf.range(rows)], 0)
            losses = keras.losses.sparse_categorical_crossentropy(labels, similar, from_logits=True)
            return tf.reduce_mean(losses), {"similarity": tf.reduce_mean(similar[0, rows])}

    encoder = keras.Sequential(
        [
            keras.Input((6,)),
            layers.Dense(8, use_bias=False),
            layers.BatchNormalization(synchronized=True),
            layers.ReLU(),
            layers.Dense(4),
        ]
    )
    return _compiled(Contrast(encoder), "adam")


@script()
def prototypes_assigned_by_sinkhorn() -> Training:
    class Swapped(_TwoViews):
        def prepare(self) -> None:
            self.prototypes = layers.Dense(3, use_bias=False)

        def contrast(self, first: Any, second: Any, training: bool) -> Any:
            scores = [
                self.prototypes(tf.math.l2_normalize(self.encoder(v), -1)) for v in (first, second)
            ]
            codes = [tf.stop_gradient(self.assigned(s)) for s in scores]
            losses = [
                -tf.reduce_mean(tf.reduce_sum(q * tf.nn.log_softmax(p / 0.1), -1))
                for q, p in ((codes[0], scores[1]), (codes[1], scores[0]))
            ]
            return 0.5 * tf.add_n(losses), {}

        def assigned(self, scores: Any) -> Any:
            q = tf.transpose(tf.exp(scores / 0.5))
            q /= tf.reduce_sum(q)
            clusters, rows = tf.shape(q)[0], tf.shape(q)[1]

            def turn(i: Any, q: Any) -> Any:
                q /= tf.reduce_sum(q, axis=1, keepdims=True) * tf.cast(clusters, q.dtype)
                q /= tf.reduce_sum(q, axis=0, keepdims=True) * tf.cast(rows, q.dtype)
                return i + 1, q

            _, q = tf.while_loop(lambda i, q: i < 3, turn, [0, q])
            return tf.transpose(q * tf.cast(rows, q.dtype))

    return _compiled(Swapped(mlp(6, 8, 4)), keras.optimizers.Adam(0.01))


@script()
def masked_autoencoder_with_shuffled_patches() -> Training:
    class Masked(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.random.SeedGenerator(3)
            self.project, self.decode = layers.Dense(4), layers.Dense(3)
            self.mix = layers.MultiHeadAttention(2, 2)
            self.token = self.add_weight((1, 1, 4), "random_normal", name="token")
            self.positions = layers.Embedding(8, 4)

        def call(self, x: Any) -> Any:
            patches = self.project(x) + self.positions(tf.range(8))
            rows = tf.shape(x)[0]
            noise = keras.random.uniform((rows, 8), seed=self.generator)
            order = tf.argsort(noise, axis=-1)
            kept, hidden = order[:, :3], order[:, 3:]
            seen = tf.gather(patches, kept, batch_dims=1)
            seen = seen + self.mix(seen, seen)
            fill = tf.repeat(tf.repeat(tf.convert_to_tensor(self.token), rows, 0), 5, 1)
            fill = fill + self.positions(hidden)
            back = tf.argsort(order, axis=-1)
            whole = tf.gather(tf.concat([seen, fill], 1), back, batch_dims=1)
            mask = tf.reduce_sum(tf.one_hot(hidden, 8), 1)
            return self.decode(whole), mask

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            decoded, mask = self(data)
            errors = tf.reduce_mean((decoded - data) ** 2, -1)
            return tf.reduce_sum(errors * mask) / tf.reduce_sum(mask), {}

    return _compiled(Masked(), keras.optimizers.Adam(0.01), drawn(8, 3))
