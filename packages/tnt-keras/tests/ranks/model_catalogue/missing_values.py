"""Steps that leave out what is missing: labels and inputs that are all known in the first batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from . import data
from .case import Training, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


@wrong()
def labels_that_are_missing_later() -> Training:
    """The mean over samples whose label is a number, as all of the first batch are."""

    def loss_of(model: Any, x: Any, y: Any) -> Any:
        is_known = tf.math.logical_not(tf.math.is_nan(y[:, 0]))
        errors = squared_errors(model, x, tf.where(is_known[:, None], y, 0.0))
        errors = tf.where(is_known, errors, 0.0)
        return tf.reduce_sum(errors) / tf.reduce_sum(tf.cast(is_known, tf.float32))

    y = data.targets()
    y[data.BATCH_SIZE + 1 :: 4] = np.nan
    return own_step(loss_of), data.of_arrays(data.features(), y)


@wrong()
def targets_of_minus_1_later() -> Training:
    """The mean over real numbers that are not ignored."""

    def loss_of(y: Any, outputs: Any) -> Any:
        is_known = tf.cast(tf.not_equal(y, -1.0), tf.float32)
        errors = tf.square(y - outputs) * is_known
        return tf.reduce_sum(errors) / tf.maximum(tf.reduce_sum(is_known), 1.0)

    y = data.targets(2)
    y[data.BATCH_SIZE + 1 :: 4, 1] = -1.0
    model = network(2)
    model.compile("sgd", loss_of)
    return model, data.of_arrays(data.features(), y)


def _batch_with_a_sample_that_is_no_number(kind: type[OwnStep], loss_of: Any) -> Training:
    x = data.features()
    x[2 * data.BATCH_SIZE] = np.nan
    return own_step(loss_of, kind=kind), data.of_arrays(x, data.targets())


@wrong(evaluates=False)
def batches_that_are_no_number_are_skipped() -> Training:
    class Guarded(OwnStep):
        def changed(self, gradients: list[Any]) -> list[Any]:
            norm = tf.linalg.global_norm(gradients)
            return [tf.where(tf.math.is_finite(norm), g, tf.zeros_like(g)) for g in gradients]

    return _batch_with_a_sample_that_is_no_number(Guarded, mean_squared_error)


@wrong(evaluates=False)
def missing_features_get_the_mean_of_the_batch() -> Training:
    def loss_of(model: Any, x: Any, y: Any) -> Any:
        is_missing = tf.math.is_nan(x)
        known = tf.where(is_missing, 0.0, x)
        number = tf.reduce_sum(tf.cast(~is_missing, tf.float32), axis=0)
        means = tf.reduce_sum(known, axis=0) / number
        return mean_squared_error(model, tf.where(is_missing, means, x), y)

    return _batch_with_a_sample_that_is_no_number(OwnStep, loss_of)


def _loss_of_known_labels(ignored: int) -> Any:
    def loss_of(model: Any, x: Any, y: Any) -> Any:
        is_known = tf.not_equal(y, ignored)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            tf.where(is_known, y, 0), model(x, training=True)
        )
        losses = tf.where(is_known, losses, 0.0)
        return tf.reduce_sum(losses) / tf.reduce_sum(tf.cast(is_known, tf.float32))

    return loss_of


def _ignored_later(ignored: int) -> Training:
    y = data.labels()
    y[data.BATCH_SIZE + 1 :: 4] = ignored
    model = own_step(_loss_of_known_labels(ignored), network(3))
    return model, data.of_arrays(data.features(), y)


@wrong()
def labels_of_minus_1_later() -> Training:
    """The mean over samples that are not ignored, as none of the first batch is."""
    return _ignored_later(-1)


@wrong()
def labels_of_minus_100_later() -> Training:
    """The same with another number."""
    return _ignored_later(-100)


@wrong()
def labels_in_the_dictionary_of_inputs_that_are_missing_later() -> Training:
    """As tokenizers of texts make it: the step takes labels out of the only component."""

    class OfDictionary(OwnStep):
        def call(self, x: Any, training: bool = False) -> Any:
            return self.inner(x["features"], training=training)

        def train_step(self, data: Any) -> Any:
            return super().train_step((data, data["labels"]))

        def test_step(self, data: Any) -> Any:
            return super().test_step((data, data["labels"]))

    labels = data.labels()
    labels[data.BATCH_SIZE + 1 :: 4] = -100
    model = own_step(_loss_of_known_labels(-100), network(3), kind=OfDictionary)
    return model, data.of_arrays({"features": data.features(), "labels": labels})


@wrong(evaluates=False)
def features_that_are_missing_later() -> Training:
    """The mean over entries that are numbers; there are no labels."""

    class OfKnownEntries(OwnStep):
        def train_step(self, data: Any) -> Any:
            is_known = tf.math.logical_not(tf.math.is_nan(data))
            return super().train_step((tf.where(is_known, data, 0.0), is_known))

    def loss_of(model: Any, x: Any, is_known: Any) -> Any:
        weights = tf.cast(is_known, tf.float32)
        errors = tf.square(model(x, training=True) - x) * weights
        return tf.reduce_sum(errors) / tf.reduce_sum(weights)

    x = data.features()
    x[data.BATCH_SIZE + 1 :: 4, 2:] = np.nan
    return own_step(loss_of, network(6), kind=OfKnownEntries), data.of_arrays(x)
