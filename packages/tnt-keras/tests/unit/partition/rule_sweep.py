"""Rules at all placements of all inputs, and where not all sizes are known."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf
from rule_replicas import all_rows_placements, assert_rule, decide

from tnt_keras.partition.rules.registry import Decision, Operation, entry_of, ruled_types
from tnt_keras.partition.value import PARTIAL, REPLICATED, Placement, Shape, Value

SIZES = [(1, 1), (2, 1), (2, 2), (3, 2), (5, 2), (4, 3), (7, 3), (5, 4), (6, 5)]
"""Numbers of rows and of replicas: as many, one more, and others, all uneven."""


def raw(operation_type: str, **attributes: Any) -> Callable[..., Any]:
    """What makes an operation of its inputs, in their order."""
    function = getattr(tf.raw_ops, operation_type)
    names = list(inspect.signature(function).parameters)

    def make(*inputs: Any) -> Any:
        return function(**dict(zip(names, inputs, strict=False)), **attributes)

    return make


def placements_of(array: Any, num_rows: int) -> list[Placement]:
    """All placements of an array; totals of numbers alone."""
    found: list[Placement] = [REPLICATED, *all_rows_placements(np.shape(array), num_rows)]
    return [*found, PARTIAL] if np.asarray(array).dtype.kind in "ifc" else found


def sweep(
    make: Callable[..., Any],
    arrays: Sequence[Any],
    num_rows: int,
    replicas: int,
    *,
    replicated: Sequence[int] = (),
    **options: Any,
) -> list[tuple[tuple[Placement, ...], Decision | None]]:
    """Assert that a rule gives the whole result, however the inputs are placed. -> decisions.

    Args:
        replicated: Inputs that are not placed otherwise.
    """
    choices = [
        [REPLICATED] if i in replicated else placements_of(a, num_rows)
        for i, a in enumerate(arrays)
    ]
    return [
        (
            placements,
            assert_rule(make, arrays, placements, num_rows, replicas, is_ruled=None, **options),
        )
        for placements in itertools.product(*choices)
        if any(p != REPLICATED for p in placements)
    ]


def types_of(module: ModuleType) -> set[str]:
    """The types of operations that have their rule in a module."""
    entries = {name: entry_of(name) for name in ruled_types()}
    return {n for n, e in entries.items() if e is not None and e.rule.__module__ == module.__name__}


def decision(
    operation_type: str,
    inputs: Sequence[tuple[Shape, Placement]],
    outputs: Sequence[Shape],
    *,
    num_rows: int = 4,
    dtype: tf.DType = tf.float32,
    constants: dict[int, Any] | None = None,
    **attributes: Any,
) -> Decision | None:
    """The decision for shapes of which not all sizes are known.

    Args:
        inputs: Shape and placement of each.
        constants: Inputs that are known.
    """
    known = {i: np.asarray(c) for i, c in (constants or {}).items()}
    values = tuple(
        Value(placement, shape, dtype, known.get(i)) for i, (shape, placement) in enumerate(inputs)
    )
    made = tuple(Value(REPLICATED, shape, dtype) for shape in outputs)
    return decide(Operation(operation_type, values, made, num_rows, attributes))
