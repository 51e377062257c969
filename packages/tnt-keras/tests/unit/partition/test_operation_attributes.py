"""Attributes of operations: as Python has them, and as a graph does."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

from tnt_keras.partition.operations import attribute, python_value


@pytest.mark.parametrize(
    ("value", "in_python"),
    [
        (tf.float16, tf.float16),
        (tf.TensorShape([None, 3]), (None, 3)),
        ([tf.TensorShape([2]), tf.TensorShape([])], [(2,), ()]),
        ([4, 5], [4, 5]),
    ],
    ids=["type", "shape", "shapes", "numbers"],
)
def test_a_value_of_a_graph_is_that_which_was_given(value: Any, in_python: Any) -> None:
    assert python_value(attribute(value)) == in_python


def test_other_values_of_a_graph_are_read() -> None:
    types = tf.compat.v1.AttrValue.ListValue(type=[tf.int32.as_datatype_enum])
    assert python_value(tf.compat.v1.AttrValue(list=types)) == [tf.int32]
    assert python_value(tf.compat.v1.AttrValue(s=b"text")) == b"text"
    assert python_value(tf.compat.v1.AttrValue()) is None


def test_a_value_that_no_attribute_has_is_refused() -> None:
    with pytest.raises(TypeError, match="No attribute can be made of"):
        attribute(object())
