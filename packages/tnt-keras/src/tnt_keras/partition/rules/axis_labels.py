"""One rule for many operations: axes have labels, as in an Einstein sum.

Axes have the same label if each place of them is an operation of its own: the third row of an input
meets the third rows of others and gives those of the outputs. Where rows lie along a label, all
axes that have it are cut.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from tnt_keras.partition.placement import REPLICATED, Partial, Placement, Rows, Shape
from tnt_keras.partition.row_numbers import GUESS, for_rows
from tnt_keras.partition.rules.registry import Decision, Operation, Output
from tnt_keras.partition.value import Value, size_of_axis

Labels: TypeAlias = Sequence[Hashable]
"""A label for each axis; None for an axis along which there can be no rows."""


def along_one_label(
    operation: Operation,
    inputs: Sequence[Labels],
    outputs: Sequence[Labels | Placement],
    *,
    total: Placement | None = None,
    weighted: bool = False,
) -> Decision | None:
    """Return the decision that cuts along one label, the one for which least is exchanged.

    An output has labels, or a placement for any label. Outputs without the label are a `total`; if
    there is none, all must have it.
    """
    if known_shapes(operation) is None:
        return None
    found = [
        decision
        for cut in _cuts(operation, inputs)
        if (decision := _decision(operation, cut, inputs, outputs, total, weighted)) is not None
    ]
    if len(found) < 2:
        return found[0] if found else None
    return min(found, key=lambda d: _elements_exchanged(operation, d))


def broadcast_labels(shape: Sequence[int | None], core: int = 0) -> Labels:
    """Return labels of axes aligned from the last; None for size one, and the last `core` axes."""
    batch = len(shape) - core
    return [axis - batch if shape[axis] != 1 else None for axis in range(batch)] + [None] * core


def known_shapes(operation: Operation) -> list[tuple[int | None, ...]] | None:
    """Return the shapes of all inputs, None if the number of axes of one is not known."""
    shapes = [value.shape for value in operation.inputs if value.shape is not None]
    return shapes if len(shapes) == len(operation.inputs) else None


@dataclasses.dataclass(frozen=True, slots=True)
class _Cut:
    """A way to cut: along the axes with a label, all of one size, into parts of one layout."""

    label: Hashable
    size: tuple[int, bool] | None
    outer: int
    inner: int | None

    def placement(self, labels: Labels) -> Placement | None:
        """Return where a value with these labels is; None if it is cut on two axes at once."""
        if self.label not in labels:
            return REPLICATED
        if labels.count(self.label) > 1:
            return None
        return Rows(labels.index(self.label), self.outer, self.inner)

    def input_placement(self, value: Value, labels: Labels) -> Placement | None:
        """Return where an input must be; None if it is not known to have the size of the others."""
        wanted = self.placement(labels)
        if not isinstance(wanted, Rows) or wanted == value.placement:
            return wanted
        has_size = self.size is not None and size_of_axis(value, wanted.axis) == self.size
        return wanted if has_size else None

    def output_placement(
        self, output: Output, labels: Labels | Placement, total: Placement | None
    ) -> Placement | None:
        """Return where an output is then; None if the operation gives another than was expected."""
        if not isinstance(labels, Sequence):
            return labels
        if output.shape is None or len(output.shape) != len(labels):
            return None
        found = self.placement(labels)
        if found == REPLICATED:
            return total
        if not isinstance(found, Rows):
            return None
        size, (before, is_known) = output.shape[found.axis], self.size or (None, False)
        return None if is_known and size not in (None, before) else found


def _cuts(operation: Operation, inputs: Sequence[Labels]) -> list[_Cut]:
    """Return the ways in which inputs are cut already."""
    cuts = []
    for value, labels in zip(operation.inputs, inputs, strict=True):
        match value.placement:
            case Rows(axis, outer, inner) if labels[axis] is not None:
                cuts.append(_Cut(labels[axis], size_of_axis(value, axis), outer, inner))
    return list(dict.fromkeys(cuts))


def _decision(
    operation: Operation,
    cut: _Cut,
    inputs: Sequence[Labels],
    outputs: Sequence[Labels | Placement],
    total: Placement | None,
    weighted: bool,
) -> Decision | None:
    before, after = [], []
    for value, labels in zip(operation.inputs, inputs, strict=True):
        if (placement := cut.input_placement(value, labels)) is None:
            return None
        before.append(placement)
    for output, known in zip(operation.outputs, outputs, strict=True):
        if (placement := cut.output_placement(output, known, total)) is None:
            return None
        after.append(placement)
    return Decision(tuple(before), tuple(after), weighted=weighted)


def _elements_exchanged(operation: Operation, decision: Decision) -> int:
    """Return how many elements are gathered before, and reduced after an operation."""
    gathered = (
        value.shape
        for value, wanted in zip(operation.inputs, decision.inputs, strict=True)
        if isinstance(value.placement, Rows) and value.placement != wanted
    )
    reduced = (
        output.shape
        for output, placement in zip(operation.outputs, decision.outputs, strict=True)
        if isinstance(placement, Partial)
    )
    return sum(map(_elements, (*gathered, *reduced)))


def _elements(shape: Shape) -> int:
    """Return about how many; the guess chooses between decisions that are all right."""
    return math.prod(GUESS if size is None else for_rows(size, GUESS) for size in shape or ())
