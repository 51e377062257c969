"""Placements: where the parts of a value are, in the vocabulary of DTensor."""

from __future__ import annotations

import dataclasses
from typing import TypeAlias

Shape: TypeAlias = tuple[int | None, ...] | None
"""The sizes of the dimensions, None for an unknown size; or None if the rank is unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replicated:
    """The same value in every lane."""

    def __repr__(self) -> str:
        return "Replicated"


@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """Each lane has its rows of the batch.

    The axis has size `outer * N * inner` for `N` rows: in row-major order, `outer` blocks of `N`
    rows of `inner` elements each. Lane `v` of `V` has `[:, v::V, :]` of `(outer, N, inner)`.
    """

    axis: int
    outer: int = 1
    inner: int | None = 1  # None if unknown

    def __repr__(self) -> str:
        layout = "" if (self.outer, self.inner) == (1, 1) else f", {self.outer}, {self.inner}"
        return f"Rows({self.axis}{layout})"


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """Each lane has its own operand. The value is their reduction over all lanes."""

    reduction: str = "sum"  # "sum", "prod", "max", "min", "and" or "or"

    def __repr__(self) -> str:
        return f"Partial({self.reduction})"


@dataclasses.dataclass(frozen=True, slots=True)
class Own:
    """Each lane has its own value, which a local region returned.

    Other regions read it as it is. Everything else reads the mean over lanes, weighted by rows.
    """

    def __repr__(self) -> str:
        return "Own"


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """A resource: a variable, a table, an iterator."""

    holds_addends: bool = False  # of a total, in every process; else all have the same value

    def __repr__(self) -> str:
        return "Handle(addends)" if self.holds_addends else "Handle"


@dataclasses.dataclass(frozen=True, slots=True)
class ListOf:
    """A list of tensors, or an optional: one for all lanes if elements are replicated."""

    element: Placement | None  # None for a list that was never written

    def __repr__(self) -> str:
        return f"ListOf({self.element})"


Placement: TypeAlias = Replicated | Rows | Partial | Own | Handle | ListOf

REPLICATED = Replicated()
PARTIAL = Partial()
HANDLE = Handle()
ADDENDS = Handle(holds_addends=True)
OWN = Own()


def is_shared(placement: Placement) -> bool:
    """Return whether all lanes hold the same, so that a process holds it once."""
    match placement:
        case ListOf(element):
            return element is None or is_shared(element)
        case Replicated() | Handle():
            return True
        case Rows() | Partial() | Own():
            return False


def join(first: Placement, second: Placement) -> Placement:
    """Return the placement to which values of both can be brought without an exchange, if any.

    It is the placement of a value where paths of a program meet: branches, iterations of a loop.
    A replicated value can be cut into rows, or be the addend of a single lane. A list that was
    never written fits any other. Rows along different axes, or rows and totals, have no such
    placement: they become replicated.
    """
    match first, second:
        case _ if first == second:
            return first
        case ListOf(None), ListOf():
            return second
        case ListOf(), ListOf(None):
            return first
        case ListOf(a), ListOf(b):
            assert a is not None
            assert b is not None
            return ListOf(join(a, b))
        case Replicated(), (Rows() | Partial()):
            return second
        case ((Rows() | Partial()), Replicated()):
            return first
        case _:
            return REPLICATED


def fits(shape: Shape, placement: Placement, num_rows: int) -> bool:
    """Return whether a value of a shape can have a placement, in a batch of `num_rows` rows."""
    if not isinstance(placement, Rows):
        return True
    if shape is None or placement.axis >= len(shape):
        return False
    return shape[placement.axis] == local_size(placement, num_rows)


def local_size(rows: Rows, num_rows: int | None) -> int | None:
    """Return the size of the rows' axis for a number of rows, None if it is unknown."""
    if num_rows is None or rows.inner is None:
        return None
    return rows.outer * num_rows * rows.inner


def local_shape(shape: Shape, placement: Placement, num_rows: int | None) -> Shape:
    """Return the shape of the part of a lane with `num_rows` rows, None if unknown."""
    if shape is None or not isinstance(placement, Rows):
        return shape
    size = local_size(placement, num_rows)
    return (*shape[: placement.axis], size, *shape[placement.axis + 1 :])
