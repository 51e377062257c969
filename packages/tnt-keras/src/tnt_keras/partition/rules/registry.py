"""The table of rules: from the type of an operation to the rule that places it.

A rule is a pure function of an `Operation`: type, attributes, and what is known of whole values. It
knows neither lanes nor ranks, makes nothing and raises nothing. It returns a `Decision`, or None
for "no": then all inputs are gathered and every rank computes the whole operation, which is right
for anything.

Before a rule is asked, operands that are declared `replicated` (shapes, axes, indices of positions,
sizes, seeds, predicates) have become so, and totals (`Partial`) have been reduced, except at inputs
that are declared `linear`. If all inputs are replicated then, no rule is asked. So a rule sees at
least one input that has rows, or is a total that it may take.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition.placement import Partial, Placement, Rows, Shape
from tnt_keras.partition.value import Value

REAL = frozenset(
    {
        *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
        *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    }
)
"""The dtypes of real numbers that are exchanged in each of their reductions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Output:
    """An output of the whole operation.

    Attributes:
        shape: The global shape, from TensorFlow's shape function.
        dtype: Its dtype.
        example_shape: As for `Value`.
    """

    shape: Shape
    dtype: tf.DType
    example_shape: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """What a rule sees of an operation of the traced graph.

    Attributes:
        type: As TensorFlow registers it: "MatMul".
        inputs: What is known of each input, with its placement.
        outputs: The outputs of the whole operation.
        num_rows: Rows of the batch, or `ANY_ROWS`.
        attributes: By name; types as `tf.DType`, shapes as tuples, strings as bytes.
    """

    type: str
    inputs: tuple[Value, ...]
    outputs: tuple[Output, ...]
    num_rows: int
    attributes: Mapping[str, Any]

    def with_rows(self) -> list[int]:
        """Return the positions of the inputs that have rows."""
        return [i for i, v in enumerate(self.inputs) if isinstance(v.placement, Rows)]


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """How an operation is computed in lanes.

    Attributes:
        inputs: The placement that each input must have. An input in another is brought to it.
        outputs: The placement that each output has then.
        counts_rows: For operands that hold sizes or positions (input -> one bool for each entry):
            the entries that are multiples `m * N` of the number of rows. A lane of `k` rows gets
            `m * k` in their place. Negative entries stay.
        constants: Input -> what the operation gets in its place, before `counts_rows` is applied.
            Integers may be multiples of `ANY_ROWS`.
        attributes: Name -> another value of an attribute, in the operation of the lanes.
        type: Another type of operation in the lanes, with the same inputs and attributes.
        weighted: Whether outputs that are totals are multiplied by `k / N`. A mean over all rows is
            the sum of the means over each lane's `k` rows, each times `k / N`.
    """

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    counts_rows: Mapping[int, Sequence[bool]] = dataclasses.field(default_factory=dict)
    constants: Mapping[int, np.ndarray[Any, Any]] = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    type: str | None = None
    weighted: bool = False


Rule: TypeAlias = Callable[[Operation], Decision | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table.

    Attributes:
        rule: The rule.
        replicated: Inputs that must be replicated, whatever they hold; negative ones count from the
            last.
        linear: Inputs that may be totals: the operation is linear in all of them together. None
            stands for all inputs.
        spreads: Whether each element of an output depends only on the elements of the inputs at
            the same place, so that rows of a replicated output can be computed from rows of inputs.
    """

    rule: Rule
    replicated: frozenset[int]
    linear: frozenset[int] | None
    spreads: bool


_table: dict[str, Entry] = {}


def rule(
    types: str,
    *,
    replicated: Collection[int] = (),
    linear: Collection[int] | None = (),
    spreads: bool = False,
) -> Callable[[Rule], Rule]:
    """Enter a rule into the table.

    Args:
        types: Types of operations, separated by white space.
        replicated: As for `Entry`.
        linear: As for `Entry`.
        spreads: As for `Entry`.

    Raises:
        ValueError: If a type has a rule already.
    """

    def enter(function: Rule) -> Rule:
        entry = Entry(
            function, frozenset(replicated), None if linear is None else frozenset(linear), spreads
        )
        for name in types.split():
            if name in _table:
                raise ValueError(f"There are two rules for operations of type {name}.")
            _table[name] = entry
        return function

    return enter


def entry_of(operation_type: str) -> Entry | None:
    """Return the row of the table for a type of operation, None if there is none."""
    return _table.get(operation_type)


def ruled_types() -> frozenset[str]:
    """Return all types of operations that have a rule."""
    return frozenset(_table)


def is_total(value: Value) -> bool:
    """Return whether a value is a sum over lanes that has not been formed yet."""
    return value.placement == Partial("sum")
