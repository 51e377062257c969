"""Two rules for many operations: axes with labels, as in an Einstein sum, and batches along axis 0.

Axes have the same label if each place of them is an operation of its own: the third row of an input
meets the third rows of others and gives those of the outputs. Where rows lie along a label, all
axes that have it are cut.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import TypeAlias

from tnt_keras.partition.rules.registry import Decision, Operation
from tnt_keras.partition.value import (
    REPLICATED,
    Partial,
    Placement,
    Sharded,
    Sizes,
    Unknown,
    Value,
    estimated_size,
    size_of_axis,
)

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
    assert len(operation.shapes) == len(inputs)
    found = []
    for cut in _cuts(operation, inputs):
        with contextlib.suppress(Unknown):
            before = [cut.of_input(*each) for each in zip(operation.inputs, inputs, strict=True)]
            after = [
                cut.of_output(*each, total) for each in zip(operation.outputs, outputs, strict=True)
            ]
            found.append(Decision(tuple(before), tuple(after), weighted=weighted))
    return min(found, key=lambda d: _elements_exchanged(operation, d), default=None)


def beside(operation: Operation, axes: Iterable[int]) -> Decision | None:
    """Return the decision for rows along no given axis, of the first input and all outputs."""
    rank = operation.inputs[0].rank
    taken = {int(axis) % rank for axis in axes}
    labels = [None if axis in taken else axis for axis in range(rank)]
    operands = [[None] * value.rank for value in operation.inputs[1:]]
    return along_one_label(operation, [labels, *operands], [labels] * len(operation.outputs))


def broadcast_labels(shape: Sizes, core: int = 0) -> Labels:
    """Return labels of axes aligned from the last; None for size one, and the last `core` axes."""
    batch = len(shape) - core
    return [axis - batch if shape[axis] != 1 else None for axis in range(batch)] + [None] * core


def with_axis(labels: Labels, axis: int) -> Labels:
    """Return labels with a new axis between them, along which there can be no rows."""
    axis %= len(labels) + 1
    return [*labels[:axis], None, *labels[axis:]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Cut:
    """A way to cut: along the axes with a label, all of one size, into parts of one layout."""

    label: Hashable
    size: tuple[int, bool] | None
    outer: int
    inner: int | None

    def placement(self, labels: Labels) -> Placement:
        """Return where a value with these labels is, unless it would be cut on two axes at once."""
        if self.label not in labels:
            return REPLICATED
        if labels.count(self.label) > 1:
            raise Unknown
        return Sharded(labels.index(self.label), self.outer, self.inner)

    def of_input(self, value: Value, labels: Labels) -> Placement:
        """Return where an input must be, if it is known to have the size of the others."""
        wanted = self.placement(labels)
        if not isinstance(wanted, Sharded) or wanted == value.placement:
            return wanted
        if self.size is None or size_of_axis(value, wanted.axis) != self.size:
            raise Unknown
        return wanted

    def of_output(
        self, output: Value, labels: Labels | Placement, total: Placement | None
    ) -> Placement:
        """Return where an output is then, unless the operation gives another than was expected."""
        if not isinstance(labels, Sequence):
            return labels
        if output.shape is None or len(output.shape) != len(labels):
            raise Unknown
        found = self.placement(labels)
        if not isinstance(found, Sharded):
            if total is None:
                raise Unknown
            return total
        size, (before, is_known) = output.shape[found.axis], self.size or (None, False)
        if is_known and size not in (None, before):
            raise Unknown
        return found


def _cuts(operation: Operation, inputs: Sequence[Labels]) -> list[_Cut]:
    """Return the ways in which inputs are cut already."""
    cuts = []
    for value, labels in zip(operation.inputs, inputs, strict=True):
        match value.placement:
            case Sharded(axis, outer, inner) if labels[axis] is not None:
                cuts.append(_Cut(labels[axis], size_of_axis(value, axis), outer, inner))
    return list(dict.fromkeys(cuts))


def _elements_exchanged(operation: Operation, decision: Decision) -> int:
    """Return about how many elements are gathered before, and reduced after an operation."""
    before = zip(operation.inputs, decision.inputs, strict=True)
    after = zip(operation.outputs, decision.outputs, strict=True)
    gathered = (v.shape for v, p in before if isinstance(v.placement, Sharded) and v.placement != p)
    reduced = (output.shape for output, p in after if isinstance(p, Partial))
    return sum(map(estimated_size, (*gathered, *reduced)))


def rows_of_batch(operation: Operation, batches: Collection[int]) -> Sharded | None:
    """Return the rows that inputs of equal size have along axis 0, or can be cut to; else None."""
    values = [operation.inputs[i] for i in batches]
    for value in values:
        rows = value.placement
        if isinstance(rows, Sharded) and rows.axis == 0:
            size = size_of_axis(value, 0)
            if all(v.placement == rows or size_of_axis(v, 0) == size is not None for v in values):
                return rows
    return None


def cut_inputs(
    operation: Operation, cut: Collection[int], rows: Sharded, *outputs: Placement
) -> Decision:
    """Return the decision that has rows for some inputs, and the other inputs replicated."""
    inputs = tuple(rows if i in cut else REPLICATED for i in range(len(operation.inputs)))
    return Decision(inputs, outputs or (rows,) * len(operation.outputs))


def batchwise(
    operation: Operation, batches: Collection[int], *outputs: Placement
) -> Decision | None:
    """Return the decision if each element along axis 0 of `batches` is computed by itself.

    Outputs have these rows, unless they are said to have other placements.
    """
    rows = rows_of_batch(operation, batches)
    return None if rows is None else cut_inputs(operation, batches, rows, *outputs)
