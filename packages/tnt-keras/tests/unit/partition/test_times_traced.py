"""How often a step is traced: no more than by plain Keras; and its partition is made once."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from fit_replicas import in_replicas

from tnt_keras.exchange.step_exchange import StepChannels
from tnt_keras.partition import trace
from tnt_keras.step.batch import cut
from tnt_keras.step.owner import StepOwner, default_options
from tnt_keras.step.partitioned_steps import PartitionedSteps


def test_the_graph_of_a_partition_is_made_once(monkeypatch):
    made = []

    plain = StepChannels.new_exchange

    def counted(*arguments):
        made.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(StepChannels, "new_exchange", counted)
    steps = PartitionedSteps(
        "step", lambda batch: tf.reduce_sum(batch), StepOwner(default_options())
    )
    assert steps.run(cut(tf.ones([4, 2]))) == 8
    assert len(made) == 1


def test_python_code_that_asks_what_is_built_is_traced_as_by_tensorflow():
    """Keras' loss scale is a constant of the graph until the optimizer is built."""

    def scales(run):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
        model.compile(optimizer, "mse")
        step = run(lambda x, y: model.train_step((x, y)))
        x, y = np.ones([2, 4], "float32"), np.zeros([2, 3], "float32")
        for batch in (x * np.inf, x, x):
            step(tf.constant(batch), tf.constant(y))
        return model.get_weights()

    specs = [tf.TensorSpec([None, 4]), tf.TensorSpec([None, 3])]
    ours = scales(lambda step: trace(step, specs).concrete_function)
    for one, other in zip(ours, scales(tf.function), strict=True):
        np.testing.assert_array_equal(one, other)


class _MakesVariable:
    """A step that counts its traces, and goes another way once it has made its variable."""

    def __init__(self, first_value):
        self.num_traces = 0
        self._first_value = first_value
        self.variable = None

    def __call__(self, x):
        self.num_traces += 1
        if self.variable is None:
            self.variable = tf.Variable(self._first_value)
            return x * 0.0
        return self.variable.assign_add(tf.reduce_sum(x))


SPECS = [tf.TensorSpec([None, 3])]


@pytest.mark.parametrize("first_value", [2.0, lambda: tf.constant(2.0)], ids=["number", "function"])
def test_a_step_that_makes_a_variable_is_traced_again_with_it(first_value):
    step = _MakesVariable(first_value)
    traced = trace(step, SPECS).concrete_function
    assert step.num_traces == 2
    np.testing.assert_array_equal([traced(tf.ones([2, 3])) for _ in range(2)], [8.0, 14.0])


def test_one_trace_is_enough_if_all_variables_may_be_made_at_once():
    step = _MakesVariable(lambda: tf.constant(2.0))
    traced = trace(step, SPECS, lambda: [step.variable]).concrete_function
    assert step.num_traces == 1
    assert step.variable.numpy() == 2.0
    np.testing.assert_array_equal(traced(tf.ones([2, 3])), np.zeros([2, 3]))


@pytest.mark.parametrize("first_value", [1.0, lambda: 1.0], ids=["number", "function"])
def test_a_step_that_makes_a_variable_in_each_trace_is_an_error(first_value):
    with pytest.raises(ValueError, match="variable"):
        trace(lambda x: x * tf.Variable(first_value), SPECS)


@pytest.mark.parametrize("has_own_step", [False, True])
def test_training_as_keras_does_it_is_traced_once_and_any_other_twice(has_own_step):
    traces = []

    class Loss(keras.losses.MeanSquaredError):
        def call(self, y_true, y_pred):
            traces.append(y_pred)
            return super().call(y_true, y_pred)

    class PerReplica(keras.Sequential):
        def train_step(self, data):
            return super().train_step(data)

    keras.utils.set_random_seed(1)
    cls = PerReplica if has_own_step else keras.Sequential
    model = cls([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile("adam", Loss(), metrics=["mae"])
    in_replicas(model, 2)
    model.fit(np.ones([8, 3]), np.ones([8, 2]), batch_size=4, epochs=2, verbose=0)
    assert len(traces) == (2 if has_own_step else 1)
