"""Gradients of tapes are known again, and can be made larger."""

from __future__ import annotations

from typing import Any

import keras
import pytest
import tensorflow as tf

from tnt_keras.probe.runs.tape_gradients import AMPLIFICATION, TapeGradients


def gradients_of(watch: TapeGradients, sources: Any) -> Any:
    def square(source: Any) -> tf.Tensor:
        return tf.reduce_sum(tf.square(tf.convert_to_tensor(source)))

    with watch.watching(), tf.GradientTape() as tape:
        leaves = tf.nest.flatten(sources)
        for leaf in leaves:
            if isinstance(leaf, tf.Tensor):
                tape.watch(leaf)
        target = tf.add_n([square(leaf) for leaf in leaves])
    with watch.watching():
        return tape.gradient(target, sources)


def test_a_gradient_is_known_as_long_as_nothing_is_computed_from_it() -> None:
    watch = TapeGradients()
    sources = {"kernel": keras.Variable([1.0, 2.0]), "bias": tf.Variable(3.0)}
    gradients = gradients_of(watch, sources)
    assert watch.include(gradients["kernel"])
    assert watch.include(gradients["bias"])
    assert not watch.include(gradients["bias"] * 1)


@pytest.mark.parametrize(
    ("dtype", "factor"), [("float32", AMPLIFICATION), ("bfloat16", AMPLIFICATION), ("float16", 16)]
)
def test_gradients_of_variables_are_multiplied(dtype: str, factor: float) -> None:
    [gradient] = gradients_of(TapeGradients(AMPLIFICATION), [tf.Variable(3.0, dtype=dtype)])
    assert float(gradient) == 6 * factor


def test_slices_are_multiplied() -> None:
    table = tf.Variable([[1.0], [2.0]])
    watch = TapeGradients(4.0)
    with watch.watching():
        with tf.GradientTape() as tape:
            target = tf.reduce_sum(tf.gather(table, [1]))
        gradient = tape.gradient(target, table)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.values.numpy().tolist() == [[4.0]]
    assert watch.include(gradient)


def test_gradients_of_inputs_are_left_alone() -> None:
    """A penalty of a step is computed from them."""
    watch = TapeGradients(AMPLIFICATION)
    [gradient] = gradients_of(watch, [tf.constant(3.0)])
    assert float(gradient) == 6
    assert not watch.include(gradient)
