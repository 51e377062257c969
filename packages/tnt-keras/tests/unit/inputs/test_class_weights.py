"""Weights of samples by their classes, as Keras gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.inputs.class_weights import WeightTable, class_weights_of

WEIGHTS = {0: 2.0, 2: 5.0}


@pytest.mark.parametrize(
    "y",
    [
        np.array([0, 1, 2, -1]),
        np.array([[0], [1], [2], [-1]]),
        np.array([0.1, 0.9, 2.4, -1.2]),
    ],
    ids=["labels", "columns", "rounded"],
)
def test_labels_of_arrays_without_a_weight_have_1(y: np.ndarray) -> None:
    assert class_weights_of(y, None, WEIGHTS).tolist() == [2.0, 1.0, 5.0, 1.0]


def test_the_largest_of_several_columns_is_the_class() -> None:
    y = np.array([[0.1, 0.2, 0.7], [0.9, 0.1, 0.0]])
    assert class_weights_of(y, None, WEIGHTS).tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    ("y", "sample_weight", "why"),
    [
        (np.zeros(3), np.ones(3), "cannot be used together"),
        (None, None, "a single output"),
        ([np.zeros(3), np.zeros(3)], None, "a single output"),
        (np.zeros((3, 4, 2)), None, r"one class for each sample. Received: .*\(3, 4, 2\)"),
    ],
)
def test_what_has_no_class_for_each_sample_is_refused(y: Any, sample_weight: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        class_weights_of(y, sample_weight, WEIGHTS)


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_a_batch_of_a_dataset_is_given_the_weights_of_its_classes(shape: tuple[int, ...]) -> None:
    x, y = tf.zeros((3, 4)), tf.constant([2.0, 1.0, 0.0])
    same_x, _, weights = WeightTable(WEIGHTS).weigh((x, tf.reshape(y, shape)))
    assert same_x is x
    assert weights.numpy().tolist() == [5.0, 1.0, 2.0]


def test_one_hot_targets_of_a_dataset_have_the_weights_of_their_classes() -> None:
    element = (tf.zeros((2, 4)), tf.constant([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert WeightTable(WEIGHTS).weigh(element)[2].numpy().tolist() == [5.0, 2.0]


@pytest.mark.parametrize(
    ("element", "why"),
    [
        ((tf.zeros(3), tf.zeros(3), tf.ones(3)), "cannot be used together"),
        ((tf.zeros(3), {"a": tf.zeros(3)}), "a single output"),
    ],
)
def test_batches_that_cannot_be_weighed_are_refused(element: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        WeightTable(WEIGHTS).weigh(element)
