"""What is known of a value while a graph is built."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition.placement import REPLICATED, Placement, Shape


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Element:
    """What is known of all elements of a list.

    Attributes:
        shape: The one that all have; None for dimensions in which they differ.
        dtype: Of all.
        constant: The value, if it is known and the same for all.
        element: If they are lists: what their elements have in common.
    """

    shape: Shape
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None
    element: Element | None = None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Value:
    """A value of the traced graph: whole, as in the serial run, and where its parts are.

    Attributes:
        placement: Where the parts are.
        shape: Of the whole value.
        dtype: Its dtype.
        constant: The value itself where it is known and small.
        elements: Of integers with at most one axis, where not all are known: those that are, None
            for others. Sizes of unknown dimensions are never known, nor what was computed of them.
        element: Of a list: what its elements have in common.
    """

    placement: Placement
    shape: Shape
    dtype: tf.DType
    constant: np.ndarray[Any, Any] | None = None
    elements: tuple[int | None, ...] | None = None
    element: Element | None = None

    @property
    def rank(self) -> int:
        """The number of dimensions. For values of unknown rank: a ValueError."""
        if self.shape is None:
            raise ValueError("The rank of a value is not known.")
        return len(self.shape)

    @property
    def num_elements(self) -> int | None:
        """How many elements the whole value has, None if that is not known."""
        if self.shape is None:
            return None
        total = 1
        for size in self.shape:
            if size is None:
                return None
            total *= size
        return total

    @property
    def known_elements(self) -> tuple[int | None, ...] | None:
        """The integers of a vector or a scalar as far as they are known, None if none is."""
        if self.constant is not None:
            return tuple(int(x) for x in np.ravel(self.constant))
        return self.elements

    def placed(self, placement: Placement) -> Value:
        """Return the same value with another placement."""
        return dataclasses.replace(self, placement=placement)


def constant(array: Any, dtype: tf.DType) -> Value:
    """Return a value that is known."""
    array = np.asarray(array)
    return Value(REPLICATED, tuple(array.shape), dtype, array)
