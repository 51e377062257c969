"""Losses over pairs, ranks and statistics of the rows of a batch: no sum over ranks gives them."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import mean_squared_error, network, own_step, squared_errors


def unit(model: Any, x: Any) -> Any:
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


@wrong()
def normalised_temperature_cross_entropy() -> Training:
    """SimCLR: two views of each sample against all others."""

    def nt_xent(model: Any, x: Any, _: Any) -> Any:
        first, second = unit(model, x), unit(model, x * 0.9 + 0.1)
        similarities = tf.matmul(first, second, transpose_b=True) / 0.5
        truth = tf.range(tf.shape(x)[0])
        values = keras.ops.sparse_categorical_crossentropy(truth, similarities, from_logits=True)
        return tf.reduce_mean(values)

    return _on_features(nt_xent)


@wrong(predicts=False)
def image_and_text_contrast() -> Training:
    """CLIP: the matching half of each sample among those of the batch, in both directions."""

    def clip(model: Any, x: Any, _: Any) -> Any:
        logits = tf.matmul(unit(model, x[:, :6]), unit(model, x[:, 6:]), transpose_b=True) * 3.0
        truth = tf.eye(tf.shape(x)[0])
        rows = tf.nn.softmax_cross_entropy_with_logits(truth, logits)
        columns = tf.nn.softmax_cross_entropy_with_logits(truth, tf.transpose(logits))
        return tf.reduce_mean(rows + columns) / 2.0

    return own_step(clip, network(4)), data.of_arrays(data.features(12), data.labels())


@wrong()
def supervised_contrast() -> Training:
    def supervised(model: Any, x: Any, y: Any) -> Any:
        z = unit(model, x)
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
def redundancy_of_two_views() -> Training:
    """Barlow Twins: the cross-correlation of features over the batch."""

    def barlow_twins(model: Any, x: Any, _: Any) -> Any:
        first, second = model.inner(x), model.inner(x[:, ::-1])
        first -= tf.reduce_mean(first, axis=0)
        second -= tf.reduce_mean(second, axis=0)
        correlation = tf.matmul(first, second, transpose_a=True) / 7.0
        return tf.reduce_sum((correlation - tf.eye(4)) ** 2)

    return _on_features(barlow_twins)


@wrong()
def variance_of_features() -> Training:
    """VICReg: each feature shall vary over the batch."""

    def variance(model: Any, x: Any, _: Any) -> Any:
        deviation = tf.sqrt(tf.math.reduce_variance(model.inner(x), axis=0) + 1e-3)
        return tf.reduce_mean(tf.nn.relu(2.0 - deviation))

    return _on_features(variance)


@wrong()
def centres_of_the_batch() -> Training:
    """Distance to the mean of the class within the batch."""

    def centre_loss(model: Any, x: Any, y: Any) -> Any:
        z, members = model.inner(x), tf.one_hot(y, 3)
        counts = tf.reduce_sum(members, axis=0)[:, None] + 1.0
        centres = tf.matmul(members, z, transpose_a=True) / counts
        return tf.reduce_mean(tf.reduce_sum((z - tf.gather(centres, y)) ** 2, axis=-1))

    return _on_features(centre_loss)


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
def relational_distillation() -> Training:
    """A student that learns the distances between the teacher's outputs."""
    teacher = network(4)

    def relational(model: Any, x: Any, _: Any) -> Any:
        def distances(z: Any) -> Any:
            return tf.reduce_sum((z[:, None] - z[None]) ** 2, axis=-1)

        return (
            tf.reduce_mean(tf.abs(distances(model.inner(x)) - distances(teacher(2.0 * x)))) / 10.0
        )

    return _on_features(relational)


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
def correlation_loss() -> Training:
    """1 - Pearson's correlation over the batch."""

    def pearson(model: Any, x: Any, y: Any) -> Any:
        a, b = model(x), y
        a, b = a - tf.reduce_mean(a), b - tf.reduce_mean(b)
        scale = tf.sqrt(tf.reduce_sum(a**2) * tf.reduce_sum(b**2)) + 1e-3
        return 1.0 - tf.reduce_sum(a * b) / scale

    return _on_targets(pearson)


@wrong()
def largest_error_of_the_batch() -> Training:
    return _on_targets(lambda model, x, y: tf.reduce_max(squared_errors(model, x, y)))


@wrong()
def median_of_errors() -> Training:
    def median(model: Any, x: Any, y: Any) -> Any:
        ordered = tf.sort(squared_errors(model, x, y))
        return tf.reduce_sum(ordered[: tf.shape(ordered)[0] // 2 + 1])

    return _on_targets(median)


@wrong()
def hard_examples_of_the_batch() -> Training:
    """Mean of the half with the largest errors."""

    def hard(model: Any, x: Any, y: Any) -> Any:
        values = squared_errors(model, x, y)
        return tf.reduce_mean(tf.math.top_k(values, (tf.shape(values)[0] + 1) // 2).values)

    return _on_targets(hard)


@wrong()
def targets_standardised_by_batch() -> Training:
    def standardised(model: Any, x: Any, y: Any) -> Any:
        deviation = tf.math.reduce_std(y) + 1e-2
        return mean_squared_error(model, x, (y - tf.reduce_mean(y)) / deviation)

    return _on_targets(standardised)


@wrong()
def advantages_normalised_by_batch() -> Training:
    """Policy gradient: advantages with mean 0 and deviation 1 in each batch."""

    def policy_gradient(model: Any, x: Any, y: Any) -> Any:
        advantages = (x[:, 0] - tf.reduce_mean(x[:, 0])) / (tf.math.reduce_std(x[:, 0]) + 1e-2)
        log_p = tf.gather(tf.nn.log_softmax(model(x)), y, batch_dims=1)
        return -tf.reduce_mean(log_p * advantages)

    return _on_features(policy_gradient, outputs=3)


@wrong()
def root_of_mean_square() -> Training:
    return _on_targets(lambda model, x, y: tf.sqrt(mean_squared_error(model, x, y)))


@wrong()
def mixup_with_reversed_batch() -> Training:
    """Each sample is mixed with its mirror in the batch."""

    def mixup(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, 0.7 * x + 0.3 * x[::-1], 0.7 * y + 0.3 * y[::-1])

    return _on_targets(mixup)


@wrong()
def cutmix_with_next_sample() -> Training:
    """Half of the features come from the next row of the batch."""

    def cutmix(model: Any, x: Any, y: Any) -> Any:
        other = tf.roll(x, 1, axis=0)
        mixed = tf.concat([x[:, :3], other[:, 3:]], axis=1)
        return mean_squared_error(model, mixed, 0.5 * (y + tf.roll(y, 1, axis=0)))

    return _on_targets(cutmix)


@wrong()
def even_rows_count_more() -> Training:
    """Rows know their place in the batch."""

    def by_place(model: Any, x: Any, y: Any) -> Any:
        weights = tf.cast(tf.range(tf.shape(x)[0]) % 2, tf.float32) + 0.2
        return tf.reduce_mean(weights * squared_errors(model, x, y))

    return _on_targets(by_place)


@wrong()
def first_half_is_labelled() -> Training:
    """Semi-supervised: the first rows of a batch have labels, the others agree with a copy."""

    def half(model: Any, x: Any, y: Any) -> Any:
        middle = tf.shape(x)[0] // 2
        labelled = mean_squared_error(model, x[: middle + 1], y[: middle + 1])
        return labelled + tf.reduce_mean((model(x[middle:]) - model(0.9 * x[middle:])) ** 2)

    return _on_targets(half)


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


@right(predicts=False)
def triplets_within_samples() -> Training:
    """Anchor, positive and negative are parts of one sample."""

    def triplets(model: Any, x: Any, _: Any) -> Any:
        anchor, near, far = (model.inner(x[:, i : i + 6]) for i in (0, 6, 12))
        margin = tf.reduce_sum((anchor - near) ** 2 - (anchor - far) ** 2, axis=-1)
        return tf.reduce_mean(tf.nn.softplus(margin))

    return own_step(triplets, network(4)), data.of_arrays(data.features(18), data.labels())


@right()
def policy_gradient_without_baseline() -> Training:
    def policy_gradient(model: Any, x: Any, y: Any) -> Any:
        log_p = tf.gather(tf.nn.log_softmax(model(x)), y, batch_dims=1)
        return -tf.reduce_mean(log_p * x[:, 0])

    return _on_features(policy_gradient, outputs=3)


@right()
def two_views_of_each_sample() -> Training:
    """BYOL's loss: only views of the same sample meet."""

    def alignment(model: Any, x: Any, _: Any) -> Any:
        first, second = unit(model, x), tf.stop_gradient(unit(model, 0.9 * x + 0.1))
        return tf.reduce_mean(2.0 - 2.0 * tf.reduce_sum(first * second, axis=-1))

    return _on_features(alignment)


@right()
def mean_product_of_pairs_in_sequence() -> Training:
    """Relations inside of a sample may be what they like."""

    def along_features(model: Any, x: Any, y: Any) -> Any:
        z = model.inner(x)
        z -= tf.reduce_mean(z, axis=-1, keepdims=True)
        return tf.reduce_mean(tf.reduce_sum(z[:, :, None] * z[:, None, :], axis=(1, 2)) + z[:, 0])

    return _on_features(along_features)
