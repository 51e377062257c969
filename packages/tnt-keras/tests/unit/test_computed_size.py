"""The size of what layers compute is added up over all layers."""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.probe.runs.computed_size import ComputedSize, size_of


def test_outputs_of_layers_and_of_the_model_around_them_are_added_up() -> None:
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8), keras.layers.Dense(2)])
    size = ComputedSize()
    with size.watching():
        model(np.ones((5, 3), "float32"))
    assert size.num_bytes == 5 * (8 + 2 + 2) * 4
    model(np.ones((5, 3), "float32"))
    assert size.num_bytes == 5 * (8 + 2 + 2) * 4


def test_the_size_of_a_structure_is_that_of_its_dense_tensors() -> None:
    sparse = tf.sparse.from_dense([[1.0, 0.0]])
    structure = {"a": (tf.zeros((4, 3), tf.float16), None), "b": [tf.constant(1, tf.int64), sparse]}
    assert size_of(structure) == 4 * 3 * 2 + 8
