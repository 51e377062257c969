"""TensorFlow traces a function again that makes variables: seconds, for the same graph."""

import random

import keras
import pytest
import tensorflow as tf

from tnt_keras.partition import trace
from tnt_keras.step import partitioned_steps
from tnt_keras.step.batch_part import cut
from tnt_keras.step.checked_exchange import CheckedExchange
from tnt_keras.step.options import default_options
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.partitioned_steps import PartitionedSteps


def counting(function):
    """Return a function, and the list that grows by each call."""
    calls = []

    def counted(*arguments, **options):
        calls.append(arguments)
        return function(*arguments, **options)

    return counted, calls


def model_of(*inputs):
    layers = [keras.layers.LSTM(5), keras.layers.Dropout(0.5), keras.layers.Dense(3)]
    model = keras.Sequential([*inputs, *layers])
    model.compile(keras.optimizers.Adam(), "mse", metrics=["mae"])
    return model


def test_a_step_that_makes_metrics_and_an_optimizers_state_is_traced_once():
    model = model_of(keras.Input((4, 2)))
    step, calls = counting(lambda x, y: model.train_step((x, y)))
    traced = trace(step, [tf.TensorSpec([None, 4, 2]), tf.TensorSpec([None, 3])])
    assert len(calls) == 1
    assert model.optimizer.built
    used = {id(variable) for variable in traced.variables}
    assert {id(variable.value) for variable in model.trainable_variables} < used


def test_variables_that_are_made_in_the_first_trace_have_the_values_of_plain_keras():
    def trained(run):
        keras.utils.set_random_seed(3)
        model = model_of()
        run(model)
        return model.get_weights()

    x, y = tf.ones([2, 4, 2]), tf.ones([2, 3])
    specs = [tf.TensorSpec([None, 4, 2]), tf.TensorSpec([None, 3])]
    ours = trained(lambda m: trace(lambda *batch: m.train_step(batch), specs))
    plain = trained(lambda m: tf.function(lambda *batch: m(batch[0])).get_concrete_function(x, y))
    for one, other in zip(ours, plain, strict=True):
        assert (one == other).all()


def test_numbers_that_python_draws_are_those_of_tensorflows_second_trace():
    def noise_of(run):
        keras.utils.set_random_seed(3)
        model, drawn = model_of(keras.Input((4, 2))), []

        def step(x, y):
            drawn.append(random.random())
            return model.train_step((x, y))

        run(step)
        return drawn[-1]

    specs = [tf.TensorSpec([None, 4, 2]), tf.TensorSpec([None, 3])]
    ours = noise_of(lambda step: trace(step, specs))
    assert ours == noise_of(lambda step: tf.function(step).get_concrete_function(*specs))


@pytest.mark.parametrize("initial_value", [1.0, lambda: tf.constant(1.0)])
def test_a_variable_of_the_users_own_is_left_to_tensorflow(initial_value):
    made = []

    def scaled(x):
        if not made:
            made.append(tf.Variable(initial_value))
        return x * made[0]

    step, calls = counting(scaled)
    trace(step, [tf.TensorSpec([None, 3])])
    assert len(calls) == 2
    assert made[0].numpy() == 1


def test_the_graph_of_a_partition_is_made_once(monkeypatch):
    made, calls = counting(CheckedExchange)
    monkeypatch.setattr(partitioned_steps, "CheckedExchange", made)
    steps = PartitionedSteps(
        "step", lambda batch: tf.reduce_sum(batch), StepOwner(default_options())
    )
    assert steps.run(cut(tf.ones([4, 2]))) == 8
    assert len(calls) == 1
