"""Losses over pairs, ranks and statistics of the rows of a batch: no sum over ranks gives them."""

from __future__ import annotations

import tempfile
from typing import Any

import keras
import tensorflow as tf

import tnt_keras

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, network, own_step


def _unit(model: Any, x: Any) -> Any:
    return tf.math.l2_normalize(model.inner(x), axis=-1)


def _on_features(loss_of: Any, outputs: int = 4, **arguments: Any) -> Training:
    """Return a model of embeddings of 6 features, and labels of 3 classes."""
    model = own_step(loss_of, network(outputs), **arguments)
    return model, data.of_arrays(data.features(), data.labels())


def _on_targets(loss_of: Any) -> Training:
    return own_step(loss_of), data.of_arrays(data.features(), data.targets())


@wrong()
def circle_loss() -> Training:
    """keras.losses.Circle in compile: similarities of all pairs of the batch."""
    x = keras.Input((6,))
    y = keras.layers.UnitNormalization()(keras.layers.Dense(4)(x))
    model = keras.Model(x, y)
    model.compile(keras.optimizers.SGD(0.01), keras.losses.Circle(gamma=2.0))
    return model, data.of_arrays(data.features(), data.labels())


class Gathered(OwnStep):
    """SimCLR as written for several ranks: two views of all samples, of which each is gathered."""

    def contrast(self, x: Any) -> Any:
        views = tf.concat(
            [tnt_keras.gather_batch(_unit(self, each)) for each in (x, tf.sin(x))], axis=0
        )
        logits = 2.0 * tf.matmul(views, views, transpose_b=True)
        logits -= tf.cast(1e4, views.dtype) * tf.eye(tf.shape(views)[0], dtype=views.dtype)
        partners = tf.roll(tf.range(tf.shape(views)[0]), tf.shape(x)[0], 0)
        return tf.reduce_mean(
            keras.ops.sparse_categorical_crossentropy(partners, logits, from_logits=True)
        )

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        return super().logs(x, y, self.contrast(x))


def _gathered() -> Training:
    optimizer = keras.optimizers.SGD(0.1)
    if keras.config.dtype_policy().name == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)

    def scaled(model: Any, x: Any, _: Any) -> Any:
        return model.optimizer.scale_loss(model.contrast(x))

    model = own_step(scaled, network(4), optimizer, kind=Gathered)
    return model, data.of_arrays(data.features(), data.labels())


@wrong(evaluates=False)
def contrast_of_gathered_views() -> Training:
    return _gathered()


@wrong(evaluates=False, policy="mixed_float16")
def contrast_of_gathered_views_in_float16() -> Training:
    return _gathered()


@wrong()
def sums_and_rows_of_the_batch_in_a_model_that_was_saved() -> Training:
    """The functions for several ranks on the tensors of a functional model."""
    inputs = keras.Input((6,))
    hidden = keras.layers.Dense(6, activation="tanh")(inputs)
    centred = hidden - tnt_keras.batch_mean(hidden, weights=keras.ops.abs(inputs[:, 0]))
    similarity = keras.ops.matmul(centred, keras.ops.transpose(tnt_keras.gather_batch(centred)))
    assert similarity.shape == (None, None)
    near = keras.ops.mean(similarity, axis=1, keepdims=True)
    total = tnt_keras.batch_sum(centred * centred)
    model = keras.Model(inputs, keras.layers.Dense(6)(centred * near / total))
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/functional.keras")
        model = keras.models.load_model(f"{folder}/functional.keras")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model, data.of_arrays(data.features(), data.features())


@wrong(predicts=False)
def image_and_text_contrast() -> Training:
    """CLIP: the matching half of each sample among those of the batch, in both directions."""

    def clip(model: Any, x: Any, _: Any) -> Any:
        logits = tf.matmul(_unit(model, x[:, :6]), _unit(model, x[:, 6:]), transpose_b=True) * 3.0
        truth = tf.eye(tf.shape(x)[0])
        rows = tf.nn.softmax_cross_entropy_with_logits(truth, logits)
        columns = tf.nn.softmax_cross_entropy_with_logits(truth, tf.transpose(logits))
        return tf.reduce_mean(rows + columns) / 2.0

    return own_step(clip, network(4)), data.of_arrays(data.features(12), data.labels())


@wrong()
def supervised_contrast() -> Training:
    def supervised(model: Any, x: Any, y: Any) -> Any:
        z = _unit(model, x)
        logits = tf.matmul(z, z, transpose_b=True) / 0.5
        same = tf.cast(y[:, None] == y[None, :], tf.float32)
        same /= tf.reduce_sum(same, axis=1, keepdims=True)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(same, logits))

    return _on_features(supervised)


@wrong()
def batch_hard_triplets() -> Training:
    """The farthest positive and the nearest negative of the batch."""

    def batch_hard(model: Any, x: Any, y: Any) -> Any:
        z = model.inner(x)
        distances = tf.reduce_sum((z[:, None] - z[None]) ** 2, axis=-1)
        same = tf.cast(y[:, None] == y[None, :], tf.float32)
        farthest = tf.reduce_max(distances * same, axis=1)
        nearest = tf.reduce_min(distances + 100.0 * same, axis=1)
        return tf.reduce_mean(tf.nn.softplus(farthest - tf.minimum(nearest, 50.0)))

    return _on_features(batch_hard)


@wrong()
def maximum_mean_discrepancy() -> Training:
    """InfoVAE: codes against a grid, through kernels of all pairs."""

    def discrepancy(model: Any, x: Any, _: Any) -> Any:
        z = model.inner(x)
        kernel = tf.exp(-tf.reduce_sum((z[:, None] - z[None]) ** 2, axis=-1))
        to_prior = tf.exp(-tf.reduce_sum(z**2, axis=-1))
        return tf.reduce_mean(kernel) - 2.0 * tf.reduce_mean(to_prior)

    return _on_features(discrepancy)


@wrong()
def retrieval_with_negatives_of_the_batch() -> Training:
    """Two towers of a recommender: other samples' items are the negatives."""
    users = keras.Input((), dtype="int32")
    inner = keras.Model(users, keras.layers.Embedding(11, 4)(users))

    def in_batch(model: Any, items: Any, truth: Any) -> Any:
        scores = tf.matmul(model.inner(items), model.inner(truth), transpose_b=True) * 10.0
        return tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(tf.eye(tf.shape(items)[0]), scores)
        )

    model = own_step(in_batch, inner, keras.optimizers.SGD(0.1))
    return model, data.of_arrays(data.labels(11), data.labels(11, seed=14))


@wrong()
def ranking_of_pairs() -> Training:
    """RankNet over all pairs of the batch."""

    def rank_net(model: Any, x: Any, y: Any) -> Any:
        scores = model(x)
        above = tf.cast(y > tf.transpose(y), tf.float32)
        return tf.reduce_mean(above * tf.nn.softplus(tf.transpose(scores) - scores))

    return _on_targets(rank_net)


@wrong()
def proportional_hazards() -> Training:
    """Cox' partial likelihood: risk sets within the batch."""

    def cox(model: Any, x: Any, times: Any) -> Any:
        risks = model(x)
        at_risk = tf.cast(times <= tf.transpose(times), tf.float32)
        sums = tf.math.log(tf.matmul(at_risk, tf.exp(risks), transpose_a=True) + 1e-3)
        return tf.reduce_mean(sums - risks)

    return _on_targets(cox)


@wrong()
def advantages_normalised_by_batch() -> Training:
    """Policy gradient: advantages with mean 0 and deviation 1 in each batch."""

    def policy_gradient(model: Any, x: Any, y: Any) -> Any:
        advantages = (x[:, 0] - tf.reduce_mean(x[:, 0])) / (tf.math.reduce_std(x[:, 0]) + 1e-2)
        log_p = tf.gather(tf.nn.log_softmax(model(x)), y, batch_dims=1)
        return -tf.reduce_mean(log_p * advantages)

    return _on_features(policy_gradient, outputs=3)


@wrong()
def cutmix_with_next_sample() -> Training:
    """Half of the features come from the next row of the batch."""

    def cutmix(model: Any, x: Any, y: Any) -> Any:
        other = tf.roll(x, 1, axis=0)
        mixed = tf.concat([x[:, :3], other[:, 3:]], axis=1)
        return mean_squared_error(model, mixed, 0.5 * (y + tf.roll(y, 1, axis=0)))

    return _on_targets(cutmix)


@wrong()
def assignments_balanced_over_batch() -> Training:
    """SwAV: Sinkhorn's iterations over rows and clusters."""

    def balanced(model: Any, x: Any, _: Any) -> Any:
        codes = tf.exp(tf.stop_gradient(model.inner(x)))
        for _ in range(2):
            codes /= tf.reduce_sum(codes, axis=0, keepdims=True)
            codes /= tf.reduce_sum(codes, axis=1, keepdims=True)
        logits = model.inner(0.9 * x)
        return tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(codes, logits))

    return _on_features(balanced)
