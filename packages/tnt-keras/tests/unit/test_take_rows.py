"""Rows of a batch can be taken in any order, out of tensors of all kinds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.probe.samples.first_samples import take_rows

COLUMNS = np.array([[0, 3, 0], [5, 0, 7], [0, 0, 0], [9, 8, 0]])
TENSORS = {
    "float32": tf.constant(COLUMNS, tf.float32),
    "bfloat16": tf.cast(COLUMNS, tf.bfloat16),
    "bool": tf.constant(COLUMNS > 4),
    "text": tf.strings.as_string(COLUMNS),
    "ragged": tf.ragged.constant([[1, 2], [], [3], [4, 5, 6]]),
    "doubly ragged": tf.ragged.constant([[[1], []], [], [[2, 3]], [[4]]]),
    "sparse": tf.sparse.from_dense(COLUMNS),
    "unordered sparse": tf.SparseTensor([[3, 1], [0, 1], [1, 2]], ["a", "b", "c"], [4, 3]),
}


def rows_of(tensor: Any) -> list[Any]:
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.to_list()
    if isinstance(tensor, tf.SparseTensor):
        return tf.sparse.to_dense(tf.sparse.reorder(tensor)).numpy().tolist()
    return tensor.numpy().tolist()


@pytest.mark.parametrize("rows", [[0], [2], [3, 1, 0, 2], [1, 1, 3, 1], range(1, 3), np.arange(4)])
@pytest.mark.parametrize("kind", TENSORS)
def test_rows_are_taken_in_the_order_in_which_they_are_named(kind: str, rows: Any) -> None:
    tensor = TENSORS[kind]
    taken = take_rows(tensor, rows)
    assert rows_of(taken) == [rows_of(tensor)[row] for row in rows]
    assert (type(taken), taken.dtype) == (type(tensor), tensor.dtype)


@pytest.mark.parametrize("kind", TENSORS)
def test_no_rows_are_a_duplicate_of_the_first(kind: str) -> None:
    assert rows_of(take_rows(TENSORS[kind], [])) == rows_of(TENSORS[kind])[:1]


def test_structure_is_kept_with_its_scalars_and_nothing() -> None:
    ids, scalar = tf.range(4), tf.constant(0.5)
    inputs, (targets, kept), nothing = take_rows(({"a": ids, "b": None}, (ids, scalar), None), [3])
    assert (inputs["a"].numpy().tolist(), inputs["b"]) == ([3], None)
    assert targets.numpy().tolist() == [3]
    assert kept is scalar
    assert nothing is None
