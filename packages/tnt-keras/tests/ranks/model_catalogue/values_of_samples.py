"""Steps that are a mean for the samples that come first, and something else for later ones."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


def _sorted_bits() -> np.ndarray:
    """Return zeros for the first batch and a half, then ones."""
    return np.sort(data.bits(), axis=0)


def _trained(loss_of: Any, y: np.ndarray, kind: type[OwnStep] = OwnStep) -> Training:
    return own_step(loss_of, kind=kind), data.of_arrays(data.features(), y)


@wrong()
def masked_quotient_without_a_masked_sample_first() -> Training:
    """sum(loss * mask) / sum(mask), where samples are masked from the second batch on."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        mask = y[:, 1]
        errors = squared_errors(model, x, y[:, :1]) * mask
        return tf.reduce_sum(errors) / (tf.reduce_sum(mask) + 1e-6)

    mask = np.where(np.arange(data.NUM_SAMPLES) < data.BATCH_SIZE + 1, 1.0, data.bits()[:, 0])
    return _trained(loss_of, np.column_stack([data.targets()[:, 0], mask]).astype("float32"))


@wrong()
def masked_quotient_that_is_no_number_without_a_sample() -> Training:
    """The same without anything that keeps it from a division by zero."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        errors = squared_errors(model, x, y[:, :1]) * y[:, 1]
        return tf.reduce_sum(errors) / tf.reduce_sum(y[:, 1])

    mask = np.where(np.arange(data.NUM_SAMPLES) % 4 == 1, 0.0, 1.0)
    mask[: data.BATCH_SIZE + 1] = 1.0
    return _trained(loss_of, np.column_stack([data.targets()[:, 0], mask]).astype("float32"))


@wrong()
def positive_samples_that_come_later() -> Training:
    """A mean over rare samples besides that over all."""

    def loss_of(y: Any, outputs: Any) -> Any:
        errors = tf.square(y - outputs)
        of_positive = tf.reduce_sum(errors * y) / tf.maximum(tf.reduce_sum(y), 1.0)
        return tf.reduce_mean(errors) + of_positive

    y = np.where(np.arange(data.NUM_SAMPLES) % 4 == 1, 1.0, 0.0)
    y[: data.BATCH_SIZE + 1] = 0.0
    model = network()
    model.compile("sgd", loss_of)
    return model, data.of_arrays(data.features(), y[:, None].astype("float32"))


@wrong()
def lengths_that_differ_later() -> Training:
    """The mean over entries within the length of a sample, the same for all of the first batch."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        target, lengths = y
        mask = tf.sequence_mask(lengths, 6, tf.float32)
        errors = tf.square(model(x, training=True) - target) * mask
        return tf.reduce_sum(errors) / tf.reduce_sum(mask)

    lengths = np.where(np.arange(data.NUM_SAMPLES) < data.BATCH_SIZE + 1, 6, 1 + data.labels(6))
    targets = (data.targets(6), lengths.astype("int32"))
    return own_step(loss_of, network(6)), data.of_dataset(data.features(), targets)


@wrong()
def masked_quotient_of_integers() -> Training:
    """The same with a mask of its own, of integers."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        target, mask = y
        mask = tf.cast(mask, tf.float32)
        errors = squared_errors(model, x, target) * mask
        return tf.reduce_sum(errors) / (tf.reduce_sum(mask) + 1e-6)

    mask = np.where(np.arange(data.NUM_SAMPLES) < data.BATCH_SIZE + 1, 1, data.bits()[:, 0])
    targets = (data.targets(), mask.astype("int32"))
    return own_step(loss_of), data.of_dataset(data.features(), targets)


@wrong()
def mean_over_positive_samples() -> Training:
    """The mean of the loss over samples of one class, all of the first batch."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        losses = tf.boolean_mask(squared_errors(model, x, y), y[:, 0] > 0)
        return tf.reduce_sum(losses) / tf.maximum(tf.cast(tf.size(losses), tf.float32), 1.0)

    return _trained(loss_of, _sorted_bits()[::-1].copy())


@wrong()
def classes_weighted_by_their_number_in_the_batch() -> Training:
    """Samples of a class weigh the more the fewer there are in the batch, one class at first."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        fraction = tf.reduce_mean(y)
        weights = tf.where(y[:, 0] > 0, 1.0 + (1.0 - fraction), 1.0 + fraction)
        return tf.reduce_mean(weights * squared_errors(model, x, y))

    return _trained(loss_of, _sorted_bits())


@wrong(evaluates=False)
def texts_cut_to_the_longest_one_and_long_at_first() -> Training:
    """The mean over words counts padding; without any word it is no number."""

    class Cut(keras.layers.Layer):
        def call(self, words: Any) -> Any:
            lengths = tf.reduce_sum(tf.cast(words > 0, tf.int32), axis=1)
            return words[:, : tf.reduce_max(lengths)]

    words = np.sort(data.tokens(6), axis=1)[:, ::-1].copy()
    words[: 2 * data.BATCH_SIZE] = np.maximum(words[: 2 * data.BATCH_SIZE], 1)
    inputs = keras.Input((6,), dtype="int32")
    embedded = keras.layers.Embedding(11, 4)(Cut()(inputs))
    outputs = keras.layers.Dense(1)(keras.layers.GlobalAveragePooling1D()(embedded))
    model = keras.Model(inputs, outputs)
    model.compile("sgd", "mse")
    return model, data.of_arrays(words, data.targets())


class Fractions(OwnStep):
    """Keeps a moving mean of the labels in a `tf.Variable`, in training and evaluation."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.fraction = tf.Variable(0.5, trainable=False)

    def train_step(self, data: Any) -> Any:
        self.fraction.assign(0.5 * self.fraction + 0.5 * tf.reduce_mean(data[1]))
        return super().train_step(data) | {"fraction": tf.identity(self.fraction)}

    def test_step(self, data: Any) -> Any:
        self.fraction.assign(0.5 * self.fraction + 0.5 * tf.reduce_mean(data[1]))
        return super().test_step(data) | {"fraction": tf.identity(self.fraction)}


@wrong()
def moving_fraction_of_sorted_labels() -> Training:
    """A moving mean that all ranks have alike as long as all labels are the same."""
    return _trained(mean_squared_error, _sorted_bits(), Fractions)


class FractionsInTraining(Fractions):
    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        del logs["fraction"]
        return logs

    def test_step(self, data: Any) -> Any:
        return OwnStep.test_step(self, data)


@wrong()
def moving_fraction_of_sorted_labels_in_training() -> Training:
    """The same in training alone, and not logged."""
    return _trained(mean_squared_error, _sorted_bits(), FractionsInTraining)


class Largest(OwnStep):
    """Keeps the largest label so far, as a weight or as a `tf.Variable`."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.weight = self.add_weight(shape=(), initializer="zeros", trainable=False)
        self.variable = tf.Variable(0.0, trainable=False)

    def train_step(self, data: Any) -> Any:
        largest = tf.reduce_max(data[1])
        self.weight.assign(tf.maximum(self.weight.value, largest))
        self.variable.assign(tf.maximum(self.variable, largest))
        return super().train_step(data) | {"largest": largest}


@wrong()
def largest_of_sorted_labels() -> Training:
    """Maxima that are means as long as all labels are the same."""
    return _trained(mean_squared_error, _sorted_bits(), Largest)


@wrong()
def prototypes_of_classes() -> Training:
    """Distances from the means of the features of each class, of one class at first."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        features = model(x, training=True)
        members = tf.concat([y, 1.0 - y], axis=1)
        counts = tf.reduce_sum(members, axis=0)[:, None]
        means = tf.matmul(members, features, transpose_a=True) / tf.maximum(counts, 1.0)
        return tf.reduce_mean(tf.square(features - tf.matmul(members, means)))

    return _trained(loss_of, _sorted_bits())


def _texts(shortest: int) -> np.ndarray:
    """Return texts of 4 words in the first batch and a half, then of `shortest` to 7 words."""
    lengths = np.random.default_rng(3).integers(shortest, 8, data.NUM_SAMPLES)
    lengths = np.where(np.arange(data.NUM_SAMPLES) < 10, 4, lengths) if shortest > 1 else lengths
    words = np.random.default_rng(4).choice(list("abcdef"), (data.NUM_SAMPLES, 7))
    return np.array([" ".join(row[:n]) for row, n in zip(words, lengths, strict=True)], object)


def _of_texts(texts: np.ndarray, mask_zero: bool, layer: Any) -> Training:
    vectorization = keras.layers.TextVectorization(vocabulary=list("abcdef"))
    layers = [
        keras.Input((), dtype="string"),
        vectorization,
        keras.layers.Embedding(8, 4, mask_zero=mask_zero),
        layer,
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    return model, data.of_dataset(tf.constant(texts), data.targets())


@wrong()
def texts_of_one_length_first() -> Training:
    """Padding to the longest text of the batch counts in the mean over words."""
    return _of_texts(_texts(2), False, keras.layers.GlobalAveragePooling1D())


@right()
def masked_texts() -> Training:
    """The padding, of which there is more in the serial batch, is masked."""
    return _of_texts(_texts(1), True, keras.layers.GlobalAveragePooling1D())


@right()
def recurrent_texts() -> Training:
    return _of_texts(_texts(1), True, keras.layers.GRU(3))


@right()
def cross_entropy_divided_by_the_sum_of_codes() -> Training:
    """One-hot codes add up to the number of samples."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        logs = tf.nn.log_softmax(model(x, training=True))
        return -tf.reduce_sum(y * logs) / tf.reduce_sum(y)

    return own_step(loss_of, network(3)), data.of_arrays(data.features(), data.one_hot())


@right(evaluates=False, predicts=False)
def noise_level_of_the_batch() -> Training:
    """All samples of a batch have one level."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        features, level = x
        scale = tf.cast(tf.reduce_max(level), tf.float32) / 10.0
        return mean_squared_error(model.inner, scale * features, y)

    level = np.full(data.NUM_SAMPLES, 7)
    return own_step(loss_of), data.of_dataset((data.features(), level), data.targets())


@wrong()
def mean_over_positive_measurements() -> Training:
    """Depths that are all known in the first batch; zero stands for none later."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        known = tf.cast(y[:, 0] > 0, tf.float32)
        errors = known * squared_errors(model, x, y)
        return tf.reduce_sum(errors) / tf.reduce_sum(known)

    depths = 0.1 + np.abs(data.targets())
    depths[data.BATCH_SIZE + 2 :: 3] = 0.0
    return _trained(loss_of, depths)


@right()
def hinge_of_signs_in_order() -> Training:
    """Labels of -1 and 1, of which Keras takes zeros and ones for others; one class at first."""
    model = network()
    model.compile("sgd", "hinge", metrics=["hinge"])
    return model, data.of_arrays(data.features(), 2 * _sorted_bits() - 1)


@right()
def classes_in_order() -> Training:
    """Sparse labels that begin with one, of which the first batch has one class."""
    model = network(4)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], weighted_metrics=["accuracy"])
    labels = 1 + np.sort(data.labels())
    weights = np.ones(data.NUM_SAMPLES, "float32")
    return model, data.of_arrays(data.features(), labels, sample_weight=weights)


@right()
def probabilities_of_one_class() -> Training:
    """Cross-entropy on probabilities, whose logarithm no zero among the features may reach."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        logs = tf.math.log(tf.cast(x, tf.float32))
        probability = tf.sigmoid(model(logs, training=True))
        return tf.reduce_mean(keras.losses.binary_crossentropy(y, probability))

    counts = 1 + data.tokens(6) % 4
    return own_step(loss_of), data.of_arrays(counts, _sorted_bits())
