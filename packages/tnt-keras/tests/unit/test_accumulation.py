"""What one rank adds up of the gradients of an update, by the formula of its share."""

from __future__ import annotations

import logging
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.keras_hooks.private import accumulator_of
from tnt_keras.step.accumulation import settle
from tnt_keras.step.context import Step, step_scope
from tnt_keras.step.optimizer import hooked_optimizers


def _apply(optimizer: Any, variable: Any, gradient: Any, num_local: int = 1) -> None:
    """Apply a gradient in a step in which this rank, the only one here, has some of two samples."""
    step = Step(tf.constant(num_local, tf.int64), tf.constant(2, tf.int64))
    with step_scope(step), hooked_optimizers():
        optimizer.apply([gradient], [variable])


def _sgd(num_steps: int, **arguments: Any) -> Any:
    return keras.optimizers.SGD(1.0, gradient_accumulation_steps=num_steps, **arguments)


def _slices(value: float, *indices: int) -> tf.IndexedSlices:
    values = tf.fill([len(indices), 2], value)
    return tf.IndexedSlices(values, tf.constant(indices, tf.int64), tf.constant([3, 2], tf.int64))


def test_update_is_the_mean_of_weighted_gradients() -> None:
    optimizer, variable = _sgd(3), keras.Variable([0.0, 0.0])
    for gradient, num_local in ([1.0, 2.0], 1), ([4.0, 8.0], 2), ([6.0, 0.0], 1):
        assert not np.any(variable.numpy())
        _apply(optimizer, variable, tf.constant(gradient), num_local)
    np.testing.assert_allclose(variable.numpy(), [-(0.5 + 4.0 + 3.0) / 3, -(1.0 + 8.0) / 3])
    _apply(optimizer, variable, tf.constant([9.0, 9.0]))  # the next update begins with nothing
    assert int(optimizer.iterations) == 1


def test_slices_of_all_steps_are_added_up() -> None:
    optimizer, variable = _sgd(2), keras.Variable(np.zeros((3, 2), np.float32))
    _apply(optimizer, variable, _slices(1.0, 0, 0, 2))
    _apply(optimizer, variable, _slices(4.0, 2))
    np.testing.assert_allclose(variable.numpy()[:, 0], [-0.5, 0.0, -(0.5 + 2.0) / 2])


@pytest.mark.parametrize("is_sparse", [False, True])
def test_rank_without_samples_adds_nothing_be_it_finite_or_not(is_sparse: bool) -> None:
    optimizer, variable = _sgd(2), keras.Variable(np.zeros((3, 2), np.float32))
    for value, num_local in (np.nan, 0), (4.0, 1):
        slices = _slices(value, 0)
        _apply(optimizer, variable, slices if is_sparse else _dense(slices), num_local)
    np.testing.assert_allclose(variable.numpy()[:, 0], [-1.0, 0.0, 0.0])


def _dense(slices: tf.IndexedSlices) -> tf.Tensor:
    return tf.convert_to_tensor(slices)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_settled_sums_are_those_of_keras(is_sparse: bool) -> None:
    optimizer, variable = _sgd(3), keras.Variable(np.zeros((3, 2), np.float32))
    for _ in range(2):
        slices = _slices(1.0, 0, 0)
        _apply(optimizer, variable, slices if is_sparse else _dense(slices))
        settle([optimizer, keras.optimizers.SGD()])
    accumulator = accumulator_of(optimizer, variable)
    np.testing.assert_allclose(accumulator.numpy()[:, 0], [2.0, 0.0, 0.0])
    _apply(optimizer, variable, _dense(_slices(1.0, 0)))
    np.testing.assert_allclose(variable.numpy()[:, 0], [-2.5 / 3, 0.0, 0.0])


def test_optimizer_that_changes_each_gradient_sees_each_of_the_global_batch() -> None:
    seen = []

    class Clipping(keras.optimizers.SGD):
        def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
            seen.extend(float(gradient) for gradient in grads)
            clipped = [tf.minimum(gradient, 1.0) for gradient in grads]
            return super().apply(clipped, trainable_variables)

    optimizer = Clipping(1.0, gradient_accumulation_steps=2)
    variable = keras.Variable(0.0)
    for gradient in 1.0, 8.0:
        _apply(optimizer, variable, tf.constant(gradient))
    assert seen == [0.5, 4.0]
    assert float(variable.value) == -(0.5 + 1.0) / 2


def test_state_that_is_set_replaces_what_was_added_up() -> None:
    optimizer, variable = _sgd(2), keras.Variable(0.0)
    _apply(optimizer, variable, tf.constant(1.0))
    settle([optimizer])
    state = [each.numpy() for each in optimizer.variables]
    _apply(optimizer, variable, tf.constant(1.0))
    _apply(optimizer, variable, tf.constant(100.0))
    variable.assign(0.0)
    optimizer.set_weights(state)
    _apply(optimizer, variable, tf.constant(3.0))
    assert float(variable.value) == -(0.5 + 1.5) / 2


def test_file_of_an_unfinished_sum_is_warned_about(caplog: Any) -> None:
    optimizer, variable = _sgd(2), keras.Variable(0.0)
    with caplog.at_level(logging.WARNING, "tnt_keras"):
        _apply(optimizer, variable, tf.constant(1.0))
        optimizer.save_own_variables({})
        [record] = caplog.records
        assert "is saved or copied in the middle of gradient accumulation" in record.getMessage()
        settle([optimizer])
        optimizer.save_own_variables({})
    assert len(caplog.records) == 1


def test_graph_for_another_size_of_the_batch_goes_on_with_the_sums() -> None:
    optimizer, variable = _sgd(3), keras.Variable(0.0)

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(x) * variable.value
        [gradient] = tape.gradient(loss, [variable.value])
        _apply(optimizer, variable, gradient)

    for x in [2.0], [4.0, 4.0], [6.0, 6.0, 6.0]:
        step(tf.constant(x))
    assert float(variable.value) == -(1.0 + 2.0 + 3.0) / 3
