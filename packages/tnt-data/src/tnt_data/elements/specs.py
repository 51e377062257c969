"""Judge elements by their types and shapes, from public specs only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tnt_data.elements.first_dimension import FirstDimension

_STRING_BYTES = 32  # a guess: texts and file names are short


def is_none(spec: Any) -> bool:
    """Return whether a component is None, whose spec has no public name in old releases."""
    return type(spec).__name__ == "NoneTensorSpec"


def named_components(element: Any) -> list[tuple[str, Any]]:
    """Return the components of an element, as `tf.nest.flatten` orders them, with names. Local."""
    # The parts of a tuple of two or three are x, y and sample_weight.
    if type(element) is tuple and len(element) in (2, 3):
        parts = [*zip(("x", "y", "sample_weight"), element, strict=False)]
        return [named for name, part in parts for named in _named(name, part)]
    return _named("x", element)


def _named(name: str, part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, Mapping):
        return [named for key in sorted(part) for named in _named(f"{name}[{key}]", part[key])]
    if isinstance(part, (tuple, list)):
        return [named for i, one in enumerate(part) for named in _named(f"{name}[{i}]", one)]
    return [(name, part)]


def first_dimension(spec: Any) -> FirstDimension:
    """Return what the shapes of elements tell about their first dimension. Local."""
    # A component whose shape is not known may have rows; whether it has is seen when it is read.
    specs = [one for one in tf.nest.flatten(spec) if not is_none(one)]
    has_rows = (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)
    if not specs or not all(isinstance(one, has_rows) and one.shape.rank != 0 for one in specs):
        return FirstDimension()
    shapes = [one.shape for one in specs]
    sizes = {shape[0] for shape in shapes if shape.rank} - {None}
    if len(sizes) > 1:
        return FirstDimension()
    return FirstDimension(True, sizes.pop() if sizes else None, _may_be_samples(shapes))


def _may_be_samples(shapes: list[tf.TensorShape]) -> bool:
    """Return whether shapes with a common first dimension are likely those of single samples."""
    # A batch has as a rule a first dimension that is open, or components of different ranks or
    # sizes: inputs and targets. Of samples it is fixed, and the components have one shape (a
    # sequence and its tags), or differ in their channels only (a picture and its mask).
    known = [shape.as_list() for shape in shapes if shape.rank]
    if len(known) < len(shapes) or any(shape[0] is None for shape in known):
        return False
    others = known[1:]
    differ_in_channels = len(known[0]) > 2 and all(one[:-1] == known[0][:-1] for one in others)
    return all(one == known[0] for one in others) or differ_in_channels


def row_bytes(spec: Any) -> int | None:
    """Return the bytes of a batch's row; None unless dense and of one known shape. Local."""
    total = 0
    for component in tf.nest.flatten(spec):
        if type(component) is not tf.TensorSpec or component.dtype in (tf.variant, tf.resource):
            return None
        if component.shape.rank is None or not component.shape[1:].is_fully_defined():
            return None
        item = _STRING_BYTES if component.dtype == tf.string else component.dtype.size
        total += item * component.shape[1:].num_elements()
    return total


def element_bytes(spec: Any) -> int | None:
    """Return the bytes of one element; None unless dense numbers of known shape. Local."""
    total = 0
    for component in tf.nest.flatten(spec):
        if type(component) is not tf.TensorSpec or not component.shape.is_fully_defined():
            return None
        if component.dtype in (tf.variant, tf.resource, tf.string):
            return None
        total += component.dtype.size * component.shape.num_elements()
    return total


def rows_are_independent(spec: Any) -> bool:
    """Return whether `batch` makes each row of one element alone. Local."""
    # Dense elements must have equal shapes, so nothing is padded; ragged ones keep their own.
    # Sparse ones get the largest shape in the batch, unless all have a known one.
    return all(
        isinstance(component, (tf.TensorSpec, tf.RaggedTensorSpec))
        or (isinstance(component, tf.SparseTensorSpec) and component.shape.is_fully_defined())
        for component in tf.nest.flatten(spec)
    )
