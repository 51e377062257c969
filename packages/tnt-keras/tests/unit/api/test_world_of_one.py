"""Without the launcher a script is a world of one rank, with the results of plain Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tnt_data
import tnt_keras
from tnt_keras.step.owner import StepOwner, default_options
from tnt_keras.step.replicas import synchronize_new


def _trained(wrap: Any) -> list[np.ndarray]:
    keras.utils.set_random_seed(3)
    model = wrap(
        keras.Sequential([keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(1)])
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(1).normal(size=(20, 4)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices((x, x.sum(axis=1))).shuffle(20, seed=2).batch(6)
    model.fit(data, epochs=2, verbose=0, shuffle=False)
    return [np.asarray(w) for w in model.get_weights()]


def test_rank_functions_describe_one_rank() -> None:
    assert tnt_keras.get_rank() == 0
    assert tnt_keras.get_size() == 1
    assert tnt_keras.get_master_rank() == 0
    assert tnt_keras.is_master_rank()


def test_training_is_bitwise_that_of_plain_keras() -> None:
    for actual, expected in zip(_trained(tnt_keras.Model), _trained(lambda m: m), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_generators_are_left_to_keras() -> None:
    model = tnt_keras.Model(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    batches = [(np.ones((2, 4)), np.ones((2, 1)))] * 3
    history = model.fit((b for b in batches), steps_per_epoch=3, shuffle=False, verbose=0)
    assert len(history.history["loss"]) == 1
    assert model.predict(((x,) for x, _ in batches), steps=3, verbose=0).shape == (6, 1)


def test_datasets_that_users_have_shared_are_read_as_they_are() -> None:
    model = tnt_keras.Model(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensor_slices((np.ones((5, 4)), np.ones((5, 1)))).batch(2)
    part = tnt_data.distribute(batches, 0, 1)
    manual = {"verbose": 0, "tnt_distribute_dataset": False}
    assert model.evaluate(part, **manual) == model.evaluate(batches, verbose=0)
    assert model.predict(part, **manual).shape == (5, 1)
    with pytest.raises(ValueError, match="tnt_distribute_dataset=False"):
        model.fit(part)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tnt_keras.Model(keras.Sequential([keras.layers.Dense(1)]), probe="off"),
        lambda: tnt_keras.Sequential([keras.layers.Dense(1)], probe="off"),
        lambda: tnt_keras.function(lambda x: x, probe="off"),
        lambda: tnt_keras.function(run_eagerly=True, probe="off"),
    ],
    ids=["Model", "Sequential", "function", "decorator"],
)
def test_a_keyword_that_is_no_more_is_an_error_at_once(call: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'probe'"):
        call()


def test_optimizer_of_one_rank_is_left_alone() -> None:
    model = tnt_keras.Model(keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]))
    model.compile("sgd", "mse")
    assert type(model.optimizer) is keras.optimizers.SGD


def test_a_step_function_takes_the_options_of_a_tf_function() -> None:
    @tnt_keras.function(input_signature=[tf.TensorSpec([None])], reduce_retracing=True)
    def total(x: tf.Tensor) -> tf.Tensor:
        assert x.shape[0] is None
        return tf.reduce_sum(x)

    assert float(total(tf.ones(3))) == 3
    with pytest.raises(TypeError):
        tnt_keras.function(lambda: None, input_sgnature=[])


def test_variables_of_a_step_that_failed_hold_nothing_to_share() -> None:
    made: list[Any] = []

    @tf.function
    def step() -> None:
        made.append(tf.Variable([1.0, 2.0]))
        raise KeyError

    with pytest.raises(KeyError):
        step()
    synchronize_new(StepOwner(default_options()), [*made, tf.Variable(3.0)])
    assert not made[0].is_initialized()
