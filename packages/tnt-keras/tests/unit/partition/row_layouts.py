"""Arrays with rows for the tests of rules, and operations that a rule is asked about directly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from hypothesis import strategies as st
from rule_replicas import all_rows_placements, decide

from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.value import REPLICATED, Placement, Shape, Sharded, Value

DIFFERENT = (2, 3, 5)


@dataclasses.dataclass(frozen=True)
class Layout:
    """An array with rows, and the replicas that it is cut for."""

    shape: tuple[int, ...]
    rows: Sharded
    num_rows: int
    replicas: int

    def array(self, dtype: Any = np.float32) -> Any:
        """All elements are different."""
        return numbers(self.shape, dtype)


def numbers(shape: Sequence[int], dtype: Any = np.float32) -> Any:
    return np.arange(1, 1 + math.prod(shape)).reshape(shape).astype(dtype)


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, int]:
    """-> rows of the batch, replicas: as many, one row more, one more than two for each replica."""
    replicas = draw(st.integers(1, 5))
    return draw(st.sampled_from([replicas, replicas + 1, 2 * replicas + 1])), replicas


@st.composite
def layouts(draw: st.DrawFn, min_rank: int = 1, max_rank: int = 3) -> Layout:
    """Sizes are all equal to the number of rows, which is every accident, or all different."""
    num_rows, replicas = draw(batches())
    rank = draw(st.integers(min_rank, max_rank))
    shape = [num_rows] * rank
    if draw(st.booleans()):
        shape = list(draw(st.permutations(DIFFERENT))[:rank])
        shape[draw(st.integers(0, rank - 1))] = num_rows * draw(st.sampled_from([1, 2, 4, 6]))
    rows = draw(st.sampled_from(all_rows_placements(shape, num_rows)))
    return Layout(tuple(shape), rows, num_rows, replicas)


def asked(
    operation_type: str,
    inputs: Sequence[Value],
    shapes: Sequence[Shape],
    num_rows: int,
    **attributes: Any,
) -> Decision | None:
    """What a rule decides about whole values of which not all sizes need to be known.

    Args:
        operation_type: Which.
        inputs: What is known of them.
        shapes: Of the outputs.
        num_rows: Rows of the batch.
        **attributes: Those that the rule reads.
    """
    outputs = tuple(Value(REPLICATED, shape, tf.float32) for shape in shapes)
    return decide(Operation(operation_type, tuple(inputs), outputs, num_rows, attributes))


def data(shape: Shape, placement: Placement) -> Value:
    return Value(placement, shape, tf.float32)


def integers(*elements: int | None) -> Value:
    """A vector, as far as it is known."""
    if None not in elements:
        return Value(REPLICATED, (len(elements),), tf.int32, np.array(elements, np.int32))
    return Value(REPLICATED, (len(elements),), tf.int32, elements=elements)


def number(value: int) -> Value:
    return Value(REPLICATED, (), tf.int32, np.array(value, np.int32))
