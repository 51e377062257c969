"""The table of rules: from the type of an operation to the rule that places it.

A rule is a pure function of an `Operation`: type, attributes, and what is known of whole values. It
knows neither replicas nor ranks, and makes nothing. It returns a `Decision`; or None, or raises
`Unknown`, for "no": then all inputs are gathered and every rank computes the whole operation, which
is right for anything.

Before a rule is asked, operands that are declared `replicated` (shapes, axes, indices of positions,
sizes, seeds, predicates) have become so, and totals (`Partial`) have been reduced, except at inputs
that are declared `linear` or `takes_partial_sums`. If all inputs are replicated then, no rule is
asked. Nor is it if `linear` inputs are totals, and no input has rows: outputs are totals then. So a
rule sees at least one input that has rows, or is a total that it takes.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition.value import PARTIAL, Placement, Sharded, Sizes, Unknown, Value

REAL = frozenset(
    {
        *(tf.float16, tf.bfloat16, tf.float32, tf.float64),
        *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    }
)
"""The dtypes of real numbers that are exchanged in each of their reductions."""


@dataclasses.dataclass(frozen=True, eq=False)
class Operation:
    """What a rule sees of an operation of the traced graph."""

    type: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]  # of the whole operation, without placements
    num_rows: int  # of the batch, or `ANY_ROWS`
    attributes: Mapping[str, Any]  # types as `tf.DType`, shapes as tuples, strings as bytes

    @property
    def shapes(self) -> list[Sizes]:
        """The shapes of all inputs. Raises `Unknown` if one is not known at all."""
        return [value.known_shape for value in self.inputs]

    def with_rows(self) -> list[int]:
        """Return the positions of the inputs that have rows."""
        return [i for i, v in enumerate(self.inputs) if isinstance(v.placement, Sharded)]


@dataclasses.dataclass(frozen=True, eq=False)
class Decision:
    """How an operation is computed in replicas.

    `counts_rows` has, for operands that hold sizes or positions, one bool for each entry: those
    that are multiples `m * N` of the number of rows become `m * k` in a replica of `k` rows.
    Negative entries stay. `constants` replace inputs before that, also by multiples of `ANY_ROWS`;
    `attributes` replace those of the operation. `weighted`: outputs that are totals are multiplied
    by `k / N`. A mean over all rows is the sum of the means over each replica's `k` rows, each
    times `k / N`.
    """

    inputs: tuple[Placement, ...]
    outputs: tuple[Placement, ...]
    counts_rows: Mapping[int, Sequence[bool]] = dataclasses.field(default_factory=dict)
    constants: Mapping[int, np.ndarray[Any, Any]] = dataclasses.field(default_factory=dict)
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    weighted: bool = False


Rule: TypeAlias = Callable[[Operation], Decision | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table.

    `is_pointwise`: each element of an output depends only on the elements of the inputs at the same
    place, so that rows of a replicated output can be computed from rows of inputs.
    """

    rule: Rule
    replicated: frozenset[int]  # inputs, whatever they hold; negative: from the last
    linear: frozenset[int] | None  # inputs that may be totals, linear in all together; None: all
    is_pointwise: bool


_table: dict[str, Entry] = {}


def rule(
    types: str,
    *,
    replicated: Collection[int] = (),
    linear: Collection[int] | None = (),
    takes_partial_sums: Collection[int] | None = (),
    is_pointwise: bool = False,
) -> Callable[[Rule], Rule]:
    """Enter a rule into the table for types, separated by white space; see `Entry`.

    Of `linear` inputs that are totals, outputs are totals; with `takes_partial_sums` the rule
    decides.
    """
    is_linear = linear is None or len(linear) > 0
    totals = linear if is_linear else takes_partial_sums

    def enter(function: Rule) -> Rule:
        @functools.wraps(function)
        def asked(operation: Operation) -> Decision | None:
            if is_linear and _are_partial_sums(operation, linear, replicated):
                return as_they_are(operation, *[PARTIAL] * len(operation.outputs))
            try:
                return function(operation)
            except Unknown:
                return None

        sums = None if totals is None else frozenset(totals)
        entry = Entry(asked, frozenset(replicated), sums, is_pointwise)
        for name in types.split():
            if name in _table:
                raise ValueError(f"There are two rules for operations of type {name}.")
            _table[name] = entry
        return function

    return enter


def _are_partial_sums(
    operation: Operation, linear: Collection[int] | None, replicated: Collection[int]
) -> bool:
    count = len(operation.inputs)
    places = linear or {*range(count)} - {i % count for i in replicated}
    return not operation.with_rows() and all(is_partial_sum(operation.inputs[i]) for i in places)


def entry_of(operation_type: str) -> Entry | None:
    """Return the row of the table for a type of operation, None if there is none."""
    return _table.get(operation_type)


def ruled_types() -> frozenset[str]:
    """Return all types of operations that have a rule."""
    return frozenset(_table)


def is_partial_sum(value: Value) -> bool:
    """Return whether a value is a sum over replicas that has not been formed yet."""
    return value.placement == PARTIAL


def as_they_are(operation: Operation, *outputs: Placement, **changes: Any) -> Decision:
    """Return a decision that takes all inputs as they are."""
    return Decision(tuple(v.placement for v in operation.inputs), outputs, **changes)


def flags(length: int, *true: int) -> tuple[bool, ...]:
    """Return so many booleans, of which those at some positions are true."""
    return tuple(i in true for i in range(length))
