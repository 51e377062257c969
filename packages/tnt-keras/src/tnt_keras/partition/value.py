"""What is known of a value while a graph is built: its placement, its shape, and what it holds.

Placements say where the parts of a value are, in the vocabulary of DTensor.

In a partition for any number of rows `N` is a prime number that is larger than any number of a
program. So a multiple of it is told from all others: it is `m * N`. Of these only such sums,
products and quotients are formed that are multiples again, whatever `N` is. Everything else that
depends on `N` is unknown, and computed when the step runs. A number that slips through fits into no
tensor: building fails. `N` is at least 2: no operation takes such an axis for one that it may
repeat.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tensorflow as tf

T = TypeVar("T")

Sizes: TypeAlias = tuple[int | None, ...]
"""The sizes of dimensions, None for an unknown size."""

Shape: TypeAlias = Sizes | None
"""The sizes of all dimensions, None if the rank is unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class Replicated:
    """The same value in every replica."""

    def __repr__(self) -> str:
        return "Replicated"


@dataclasses.dataclass(frozen=True, slots=True)
class Sharded:
    """Each replica has its rows of the batch.

    The axis has size `outer * N * inner` for `N` rows: in row-major order, `outer` blocks of `N`
    rows of `inner` elements each. Replica `v` of `V` has `[:, v::V, :]` of `(outer, N, inner)`.
    """

    axis: int
    outer: int = 1
    inner: int | None = 1  # None if unknown

    def on_axis(self, axis: int) -> Sharded:
        """Return the placement of the same rows along another axis."""
        return Sharded(axis, self.outer, self.inner)

    def __repr__(self) -> str:
        layout = "" if (self.outer, self.inner) == (1, 1) else f", {self.outer}, {self.inner}"
        return f"Sharded({self.axis}{layout})"


@dataclasses.dataclass(frozen=True, slots=True)
class Partial:
    """Each replica has its own operand. The value is their reduction over all replicas."""

    reduction: str = "sum"  # "sum", "prod", "max", "min", "and" or "or"

    def __repr__(self) -> str:
        return f"Partial({self.reduction})"


@dataclasses.dataclass(frozen=True, slots=True)
class PerReplica:
    """Each replica has its own value, which a local region returned.

    Other regions read it as it is. Everything else reads the mean over replicas, weighted by rows.
    """

    def __repr__(self) -> str:
        return "Own"


@dataclasses.dataclass(frozen=True, slots=True)
class Handle:
    """A resource: a variable, a table, an iterator."""

    is_partial: bool = False  # of a total, in every process; else all have the same value

    def __repr__(self) -> str:
        return "Handle(partial sums)" if self.is_partial else "Handle"


@dataclasses.dataclass(frozen=True, slots=True)
class ListOf:
    """A list of tensors, or an optional: one for all replicas if elements are replicated."""

    element: Placement | None  # None for a list that was never written

    def __repr__(self) -> str:
        return f"ListOf({self.element})"


Placement: TypeAlias = Replicated | Sharded | Partial | PerReplica | Handle | ListOf

REPLICATED = Replicated()
PARTIAL = Partial()
HANDLE = Handle()
PARTIAL_HANDLE = Handle(is_partial=True)
PER_REPLICA = PerReplica()


def is_shared(placement: Placement) -> bool:
    """Return whether all replicas hold the same, so that a process holds it once."""
    if isinstance(placement, ListOf):
        return placement.element is None or is_shared(placement.element)
    return isinstance(placement, Replicated | Handle)


def replicated(placement: Placement) -> Placement:
    """Return the placement of the value when every replica holds all of it."""
    match placement:
        case Handle() | ListOf(None):
            return placement
        case ListOf(element) if element is not None:
            return ListOf(replicated(element))
        case _:
            return REPLICATED


def join(first: Placement, second: Placement) -> Placement:
    """Return the placement to which values of both can be resharded without an exchange, if any.

    It is the placement of a value where paths of a program meet: branches, iterations of a loop. A
    replicated value can be cut into rows, or be the partial sum of a single replica. A list that
    was never written fits any other. Rows along different axes, or rows and totals, have no such
    placement: they become replicated.
    """
    match first, second:
        case _ if first == second:
            return first
        case ListOf(None), ListOf():
            return second
        case ListOf(), ListOf(None):
            return first
        case ListOf(a), ListOf(b) if a is not None and b is not None:
            return ListOf(join(a, b))
        case Replicated(), (Sharded() | Partial()):
            return second
        case ((Sharded() | Partial()), Replicated()):
            return first
        case _:
            return REPLICATED


def fits(shape: Shape, placement: Placement, num_rows: int) -> bool:
    """Return whether a value of a shape can have a placement, in a batch of `num_rows` rows."""
    if not isinstance(placement, Sharded):
        return True
    size = local_size(placement, num_rows)
    return shape is not None and shape[placement.axis : placement.axis + 1] == (size,)


def local_size(rows: Sharded, num_rows: int | None) -> int | None:
    """Return the size of the rows' axis for a number of rows, None if it is unknown."""
    if num_rows is None or rows.inner is None:
        return None
    return rows.outer * num_rows * rows.inner


def local_shape(shape: Shape, placement: Placement, num_rows: int | None) -> Shape:
    """Return the shape of the part of a replica with `num_rows` rows, None if unknown."""
    if shape is None or not isinstance(placement, Sharded):
        return shape
    size = local_size(placement, num_rows)
    return (*shape[: placement.axis], size, *shape[placement.axis + 1 :])


ANY_ROWS = 2**127 - 1
"""The number of rows of a partition for any number of rows."""

STAND_INS = (3_000_017, 3_000_029)
"""Two prime numbers of rows: what is a multiple of them for both is one for any number."""

GUESS = 100
"""Of a number of rows, or of a length, where something is estimated."""

ROWS_OF_EXAMPLE = 1009
"""The number of rows in the example of unknown sizes, see `Value`."""

_TOO_LARGE = 2**64  # for every dtype


def is_symbolic(number: int | None) -> bool:
    """Return whether a number depends on the number of rows."""
    return number is not None and abs(number) >= _TOO_LARGE


def multiple(number: int) -> int | None:
    """Return a number if it is known, or `m * N`; else None."""
    if not is_symbolic(number):
        return number
    return number if number % ANY_ROWS == 0 and 0 < number // ANY_ROWS < _TOO_LARGE else None


def quotient(number: int, divisor: int) -> int | None:
    """Return a number divided by another and rounded down, None if it is no such multiple."""
    is_known = divisor != 0 and (is_symbolic(number) or not is_symbolic(divisor))
    return multiple(number // divisor) if is_known else None


def for_rows(number: int, num_rows: int) -> int:
    """Return a number for so many rows."""
    return number // ANY_ROWS * num_rows if is_symbolic(number) else number


def in_example(shape: Iterable[int]) -> tuple[int, ...]:
    """Return numbers for the number of rows in the example."""
    return tuple(for_rows(size, ROWS_OF_EXAMPLE) for size in shape)


def shape_of(shape: tf.TensorShape) -> Shape:
    """Return a shape of TensorFlow as one of a value."""
    return None if shape.rank is None else tuple(shape.as_list())


def static(shape: Shape) -> Shape:
    """Return a shape with None for what depends on the number of rows."""
    return None if shape is None else tuple(None if is_symbolic(s) else s for s in shape)


def shown(number: int) -> str:
    """Return a number for messages."""
    return f"{number // ANY_ROWS}N" if is_symbolic(number) else str(number)


class Unknown(ValueError):
    """Something is not known of a value that a rule must know."""


def known(something: T | None) -> T:
    """Return what is not None. Raises `Unknown` if it is."""
    if something is None:
        raise Unknown
    return something


def product(sizes: Sizes) -> int | None:
    """Return the product of sizes, None if one is not known."""
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def estimated_size(shape: Shape, unknown: int = GUESS) -> int:
    """Return about how many elements there are, with a guess for unknown sizes and rows."""
    return math.prod(unknown if s is None else for_rows(s, GUESS) for s in shape or ())


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Element:
    """What is known of all elements of a list."""

    shape: Shape  # None where they differ
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None  # if the same for all: as `Value.known_array`
    element: Element | None = None  # if they are lists: of their elements
    is_optional: bool = False  # no list, but one tensor or none


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of the traced graph: the whole one of the serial run, and where its parts are.

    `elements` are those of an integer vector or scalar, None for unknown ones. What is computed
    from an unknown size is unknown, but for multiples of an unknown number of rows, which a float
    may be too. In the example every unknown size is a large number of its own; `element` and
    `length` are for lists.
    """

    placement: Placement
    shape: Shape
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None  # if known and small
    elements: tuple[int | None, ...] | None = None
    element: Element | None = None
    example: np.ndarray[Any, Any] | None = None
    example_shape: tuple[int, ...] | None = None
    length: int | None = None
    example_length: int | None = None

    @property
    def shape_in_example(self) -> Shape:
        """The shape in the example, or what is known of it."""
        return self.shape if self.example_shape is None else self.example_shape

    @property
    def is_known(self) -> bool:
        """Whether it is a constant, or all its elements are known but for the number of rows."""
        return self.constant is not None or (
            self.elements is not None
            and None not in (*self.elements, *(self.shape or (None,) * (self.shape is None)))
            and self.placement == REPLICATED
        )

    @property
    def known_array(self) -> np.ndarray[Any, Any] | None:
        """The value if it is known: with Python's integers if it depends on the rows."""
        if self.constant is not None or not self.is_known:
            return self.constant
        return np.asarray(self.elements, object).reshape(self.known_sizes)

    @property
    def value_in_example(self) -> np.ndarray[Any, Any] | None:
        """The value in the example, which is the value itself if that is known."""
        known = self.known_array
        if self.constant is not None or known is None:
            return self.example if known is None else known
        example = in_example(known.ravel().tolist())
        return np.asarray(example, self.dtype.as_numpy_dtype).reshape(known.shape)

    @property
    def known_sizes(self) -> list[int]:
        """The sizes of its dimensions that are known."""
        return [size for size in self.shape or () if size is not None]

    @property
    def known_shape(self) -> Sizes:
        """The shape. Raises `Unknown` if not even the rank is known."""
        return known(self.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions. Raises `Unknown` if it is not known."""
        return len(self.known_shape)

    @property
    def rows(self) -> Sharded:
        """Where its rows are. Raises `Unknown` if it has none."""
        return known(self.placement if isinstance(self.placement, Sharded) else None)

    @property
    def num_elements(self) -> int | None:
        """The number of elements of the whole value, None if it is unknown."""
        size = None if self.shape is None else product(self.shape)
        return None if size is None else multiple(size)

    @property
    def known_elements(self) -> tuple[int | None, ...] | None:
        """The integers of a vector or a scalar as far as they are known, None if none is."""
        if self.constant is not None and self.dtype != tf.string:
            return tuple(int(x) for x in np.ravel(self.constant))
        return self.elements

    def placed(self, placement: Placement) -> Value:
        """Return the same value with another placement."""
        return dataclasses.replace(self, placement=placement)


def size_of_axis(value: Value, axis: int) -> tuple[int, bool] | None:
    """Return a size and whether it is known, else in the example; None if that has none, or 1.

    Where an operation combines two values, sizes that are equal in this are equal in every step.
    """
    size, example = (shape[axis] if shape else None for shape in (value.shape, value.example_shape))
    if size is not None:
        return size, True
    return None if example is None or example == 1 else (example, False)


def constant(array: Any, dtype: tf.DType) -> Value:
    """Return the value of a constant."""
    array = np.asarray(array)
    return Value(REPLICATED, tuple(array.shape), dtype, array)


def integers(elements: Sequence[int], shape: Shape, dtype: tf.DType) -> Value:
    """Return the value of integers that are known, or multiples of the number of rows."""
    if any(map(is_symbolic, elements)):
        return Value(REPLICATED, shape, dtype, elements=tuple(elements))
    return constant(np.asarray(elements, dtype.as_numpy_dtype).reshape(shape or ()), dtype)


def known_value(array: np.ndarray[Any, Any], dtype: tf.DType) -> Value:
    """Return a value of which this is `Value.known_array`."""
    if array.dtype == object and dtype != tf.string:
        return integers(array.ravel().tolist(), tuple(array.shape), dtype)
    return constant(array, dtype)
