"""What is known of a value while a graph is built."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition import row_numbers
from tnt_keras.partition.placement import REPLICATED, Placement, Shape


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Element:
    """What is known of all elements of a list.

    Attributes:
        shape: The shape of each; None for dimensions in which they differ.
        dtype: The dtype of each.
        constant: The value, if it is known and the same for all: as `Value.known_array`.
        element: If they are lists: what their elements have in common.
        is_optional: Whether it is no list but an optional, which holds one tensor or none.
    """

    shape: Shape
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None
    element: Element | None = None
    is_optional: bool = False


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of the traced graph: the whole one of the serial run, and where its parts are.

    Attributes:
        placement: Where the parts are.
        shape: The shape of the whole value.
        dtype: Its dtype.
        constant: The value itself, if it is known and small.
        elements: For an integer vector or scalar that is partly known: its elements, None for
            unknown ones. What is computed from an unknown size is unknown, but for multiples of an
            unknown number of rows. A float may be such a multiple too.
        element: For a list: what its elements have in common.
        example: For integers that are not all known: their values in an example, in which every
            unknown size is a large number of its own.
        example_shape: The shape in that example; None if there is none.
        length: For a list: how many elements it has, None if unknown.
        example_length: For a list: the same in the example.
    """

    placement: Placement
    shape: Shape
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None
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
        sizes = [size for size in self.shape or () if size is not None]
        return np.asarray(self.elements, object).reshape(sizes)

    @property
    def value_in_example(self) -> np.ndarray[Any, Any] | None:
        """The value in the example, which is the value itself if that is known."""
        known = self.known_array
        if self.constant is not None or known is None:
            return self.example if known is None else known
        example = row_numbers.in_example(known.ravel().tolist())
        return np.asarray(example, self.dtype.as_numpy_dtype).reshape(known.shape)

    @property
    def rank(self) -> int:
        """The number of dimensions. Raises a ValueError if it is unknown."""
        if self.shape is None:
            raise ValueError("The rank of a value is not known.")
        return len(self.shape)

    @property
    def num_elements(self) -> int | None:
        """The number of elements of the whole value, None if it is unknown."""
        sizes = [size for size in self.shape or () if size is not None]
        if self.shape is None or len(sizes) < len(self.shape):
            return None
        return row_numbers.multiple(math.prod(sizes))

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
    if any(map(row_numbers.counts_rows, elements)):
        return Value(REPLICATED, shape, dtype, elements=tuple(elements))
    return constant(np.asarray(elements, dtype.as_numpy_dtype).reshape(shape or ()), dtype)


def known_value(array: np.ndarray[Any, Any], dtype: tf.DType) -> Value:
    """Return a value of which this is `Value.known_array`."""
    if array.dtype == object and dtype != tf.string:
        return integers(array.ravel().tolist(), tuple(array.shape), dtype)
    return constant(array, dtype)
