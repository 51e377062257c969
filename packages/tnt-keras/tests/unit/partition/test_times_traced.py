"""How often a step is traced: as often as by plain Keras; and its partition is made once."""

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.partition import trace
from tnt_keras.step import form_functions
from tnt_keras.step.batch_part import cut
from tnt_keras.step.form_functions import CheckedExchange
from tnt_keras.step.options import default_options
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.partitioned_steps import PartitionedSteps


def test_the_graph_of_a_partition_is_made_once(monkeypatch):
    made = []

    def counted(*arguments):
        made.append(arguments)
        return CheckedExchange(*arguments)

    monkeypatch.setattr(form_functions, "CheckedExchange", counted)
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
