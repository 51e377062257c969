"""Where the parts of a value are: placements, in the vocabulary of DTensor."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

Shape: TypeAlias = tuple[int | None, ...] | None
"""Sizes of the dimensions; None for one that is not known, None alone if their number is not."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replicated:
    """The same value in every lane."""

    def __repr__(self) -> str:
        return "Replicated"


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Each lane has its rows of the batch.

    The axis is, in row-major order, `outer` blocks of the batch's rows of `inner` elements each: of
    size `outer * N * inner`, for `N` rows. Lane `v` of `V` has `[:, v::V, :]` of `(outer, N, inner)`.

    Attributes:
        axis: Counted from 0.
        outer: Number of blocks that hold the whole batch each.
        inner: Elements of the axis that belong to one row, next to each other; None if not known.
    """

    axis: int
    outer: int = 1
    inner: int | None = 1

    def __repr__(self) -> str:
        layout = "" if (self.outer, self.inner) == (1, 1) else f", {self.outer}, {self.inner}"
        return f"Rows({self.axis}{layout})"


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """Each lane has its own operand of a reduction over lanes, which gives the value.

    Attributes:
        reduction: "sum", "prod", "max", "min", "and" or "or".
    """

    reduction: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduction})"


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """Each lane's own value of a local region: another one in each lane.

    Other regions read it as it is. Everybody else reads the mean over lanes, each weighted by its
    rows.
    """

    def __repr__(self) -> str:
        return "Own"


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """A resource: a variable, a table, an iterator.

    Attributes:
        holds_addends: Whether it is a variable that holds an addend in every process, and whose value
            is the total; others hold the same in all processes.
    """

    holds_addends: bool = False

    def __repr__(self) -> str:
        return "Handle(addends)" if self.holds_addends else "Handle"


@dataclasses.dataclass(frozen=True, slots=True)
class ListOf:
    """A list of tensors, or an optional: one for all lanes if its elements are replicated, else one
    in every lane.

    Attributes:
        element: The placement of each element; None for a list in which nothing was put yet.
    """

    element: Placement | None

    def __repr__(self) -> str:
        return f"ListOf({self.element})"


Placement: TypeAlias = Replicated | Rows | Partial | Own | Handle | ListOf

REPLICATED = Replicated()
PARTIAL = Partial()
HANDLE = Handle()
ADDENDS = Handle(holds_addends=True)
OWN = Own()


def is_shared(placement: Placement) -> bool:
    """Return whether all lanes hold the same thing, so that it exists once in a process."""
    match placement:
        case ListOf(element):
            return element is None or is_shared(element)
        case Replicated() | Handle():
            return True
        case Rows() | Partial() | Own():
            return False


def join(first: Placement, second: Placement) -> Placement:
    """Return the placement to which values of both can be brought without an exchange, if any.

    Where paths of a program meet (branches, turns of a loop) this is what the result gets. Replicated
    values can be cut or be held by one lane alone; lists in which nothing was put fit any. Rows along
    different axes, and rows and totals, have none: they become replicated.
    """
    match first, second:
        case _ if first == second:
            return first
        case ListOf(None), ListOf():
            return second
        case ListOf(), ListOf(None):
            return first
        case ListOf(a), ListOf(b):
            assert a is not None and b is not None
            return ListOf(join(a, b))
        case Replicated(), (Rows() | Partial()):
            return second
        case ((Rows() | Partial()), Replicated()):
            return first
        case _:
            return REPLICATED


def can_become(placement: Placement) -> bool:
    """Return whether what all lanes have can be brought to a placement without an exchange."""
    match placement:
        case Partial("prod"):
            return False
        case Replicated() | Rows() | Partial():
            return True
        case Own() | Handle() | ListOf():
            return False


def fits(shape: Shape, placement: Placement, num_rows: int) -> bool:
    """Return whether a value of this shape can have a placement in a batch of so many rows."""
    if not isinstance(placement, Rows):
        return True
    if shape is None or placement.axis >= len(shape):
        return False
    return shape[placement.axis] == local_size(placement, num_rows)


def local_size(rows: Rows, num_rows: int | None) -> int | None:
    """Return the size of the rows' axis for so many rows, None if it is not known."""
    if num_rows is None or rows.inner is None:
        return None
    return rows.outer * num_rows * rows.inner


def local_shape(shape: Shape, placement: Placement, num_rows: int | None) -> Shape:
    """Return the shape of one lane's part.

    Args:
        shape: Of the whole value.
        placement: Its placement.
        num_rows: Rows of the batch in this lane; None if not known.
    """
    if shape is None or not isinstance(placement, Rows):
        return shape
    size = local_size(placement, num_rows)
    return (*shape[: placement.axis], size, *shape[placement.axis + 1 :])
