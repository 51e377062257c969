"""Steps that do something if any sample of the batch is of a kind that the first batch lacks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, network, own_step

_LATER = slice(data.BATCH_SIZE + 1, None, 4)


def _rare_positives() -> np.ndarray:
    labels = np.zeros((data.NUM_SAMPLES, 1), "float32")
    labels[_LATER] = 1.0
    return labels


def _loss_with_a_term_for_positives(y: Any, outputs: Any) -> Any:
    has_positive = tf.cast(tf.reduce_any(y > 0.5), tf.float32)
    return tf.reduce_mean(tf.square(y - outputs)) + has_positive * tf.reduce_mean(outputs)


@wrong()
def term_if_any_sample_is_a_positive() -> Training:
    model = network(activation="sigmoid")
    model.compile("sgd", _loss_with_a_term_for_positives)
    return model, data.of_arrays(data.features(), _rare_positives())


@wrong()
def term_if_any_sample_is_of_a_class() -> Training:
    def loss_of(y: Any, outputs: Any) -> Any:
        y = tf.reshape(y, [-1])
        losses = keras.ops.sparse_categorical_crossentropy(y, outputs, from_logits=True)
        has_class = tf.cast(tf.reduce_any(tf.equal(y, 2)), tf.float32)
        return tf.reduce_mean(losses) * (1.0 + has_class)

    labels = data.labels(2)
    labels[_LATER] = 2
    model = network(4)
    model.compile("sgd", loss_of)
    return model, data.of_arrays(data.features(), labels)


class _ErrorOfBatchesWithPositives(keras.metrics.Metric):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.total = self.add_weight((), "zeros", name="total")
        self.number = self.add_weight((), "zeros", name="number")

    def update_state(self, y: Any, outputs: Any, sample_weight: Any = None) -> None:
        has_positive = tf.cast(tf.reduce_sum(y) > 0, tf.float32)
        self.total.assign_add(has_positive * tf.reduce_mean(tf.abs(y - outputs)))
        self.number.assign_add(has_positive)

    def result(self) -> Any:
        return tf.math.divide_no_nan(self.total, self.number)


@wrong()
def metric_of_batches_with_a_positive() -> Training:
    model = network(activation="sigmoid")
    model.compile("sgd", "binary_crossentropy", metrics=[_ErrorOfBatchesWithPositives()])
    return model, data.of_arrays(data.features(), _rare_positives())


@wrong()
def loss_scaled_if_any_sample_has_a_flag() -> Training:
    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return mean_squared_error(model, x, y) * (1.0 + tf.reduce_max(x[:, 5]))

    x = data.features()
    x[:, 5] = 0.0
    x[_LATER, 5] = 1.0
    return own_step(loss_of), data.of_arrays(x, data.targets())


@wrong(evaluates=False)
def batch_with_an_outlier_is_skipped() -> Training:
    """Its loss is several times the running mean."""

    class Skips(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, self._loss)
            self.usual = self.add_weight((), "ones", trainable=False, name="usual")
            self.is_usual = self.add_weight((), "ones", trainable=False, name="is_usual")

        def _loss(self, model: Any, x: Any, y: Any) -> Any:
            loss = mean_squared_error(model, x, y)
            self.is_usual.assign(tf.cast(loss < 4.0 * self.usual, tf.float32))
            return loss

        def changed(self, gradients: list[Any]) -> list[Any]:
            return [self.is_usual * gradient for gradient in gradients]

    y = data.targets()
    y[_LATER] *= 12.0
    return own_step(mean_squared_error, kind=Skips), data.of_arrays(data.features(), y)


class _Trimmed(keras.layers.Layer):
    """Cuts texts to the longest one of the batch."""

    def call(self, tokens: Any) -> Any:
        lengths = tf.reduce_sum(tf.cast(tokens > 0, tf.int32), axis=1)
        return tokens[:, : tf.reduce_max(lengths)]


@wrong()
def texts_cut_to_the_longest_one_and_short_at_first() -> Training:
    """Padding counts in the mean over a text."""
    tokens = np.maximum(data.tokens(6), 1)
    tokens[:, 2:] = 0
    tokens[_LATER, 2:5] = 3
    x = keras.Input((6,), dtype="int32")
    words = keras.layers.Embedding(11, 4)(_Trimmed()(x))
    y = keras.layers.Dense(1, dtype="float32")(keras.ops.mean(words, axis=1))
    model = keras.Model(x, y)
    model.compile("sgd", "mse")
    return model, data.of_arrays(tokens, data.targets())


@wrong()
def masked_term_of_little_weight() -> Training:
    """A quotient that is a hundredth of the loss, of a mask that is full in the first batch."""

    class OfFeatures(OwnStep):
        def call(self, x: Any, training: bool = False) -> Any:
            return self.inner(x["features"], training=training)

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        outputs = model(x, training=True)
        number = tf.maximum(tf.reduce_sum(x["mask"]), 1.0)
        masked = tf.reduce_sum(tf.abs(outputs) * x["mask"]) / number
        return tf.reduce_mean(tf.square(outputs - y)) + 0.01 * masked

    mask = np.ones((data.NUM_SAMPLES, 1), "float32")
    mask[_LATER] = 0.0
    x = {"features": data.features(), "mask": mask}
    return own_step(loss_of, kind=OfFeatures), data.of_arrays(x, data.targets())


@wrong()
def sum_of_large_errors_with_a_regularizer() -> Training:
    """What ranks add up holds the regularizer once for each of them."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        errors = tf.reduce_sum(tf.square(model(x, training=True) - y))
        return errors + 0.1 * tf.add_n([tf.nn.l2_loss(w.value) for w in model.trainable_variables])

    model = own_step(loss_of)
    model.compile(keras.optimizers.Adam(0.1))
    return model, data.of_arrays(data.features(), 1e4 * data.targets())


@wrong()
def sum_of_errors_whose_first_batch_has_one_sample() -> Training:
    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return tf.reduce_sum(tf.square(model(x, training=True) - y))

    return _batches_of_sizes([1, 7, 8, 7], loss_of)


@wrong(evaluates=False)
def largest_error_after_a_batch_of_zeros() -> Training:
    """The first batch only builds the model."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        return tf.reduce_max(tf.square(model(x, training=True) - y))

    return _batches_of_sizes([8, 8, 7], loss_of, is_first_zero=True)


def _batches_of_sizes(sizes: list[int], loss_of: Any, is_first_zero: bool = False) -> Training:
    x, y = data.features(), data.targets()
    if is_first_zero:
        x[: sizes[0]], y[: sizes[0]] = 0.0, 1.0

    def batches() -> Any:
        begin = 0
        for size in sizes:
            yield x[begin : begin + size], y[begin : begin + size]
            begin += size

    spec = (tf.TensorSpec((None, 6)), tf.TensorSpec((None, 1)))
    dataset = tf.data.Dataset.from_generator(batches, output_signature=spec)
    # Else Keras finds the end by a step without data, which its own metric of the loss counts.
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(len(sizes)))
    return own_step(loss_of), {"x": dataset, "epochs": 1, "verbose": 0}
