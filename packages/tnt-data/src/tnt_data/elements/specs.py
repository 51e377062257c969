"""Judge elements by their types and shapes, from public specs only."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_STRING_BYTES = 32  # a guess: texts and file names are short


def is_none(spec: Any) -> bool:
    """Return whether a component is None. Local.

    Old releases have no public name for its spec.
    """
    return type(spec).__name__ == "NoneTensorSpec"


def looks_batched(spec: Any) -> bool:
    """Return whether elements of this spec may be batches. Local.

    They may if all components share their first dimension: open in all of them, or one number in
    several.
    """
    specs = [one for one in tf.nest.flatten(spec) if not is_none(one)]
    shapes: list[Any] = [getattr(one, "shape", None) for one in specs]
    if not shapes or any(shape is None or shape.rank in (None, 0) for shape in shapes):
        return False
    first = {shape[0] for shape in shapes}
    return len(first) == 1 and (first == {None} or len(shapes) > 1)


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
    """Return whether `batch` makes each row of one element alone. Local.

    Dense elements must have equal shapes, so nothing is padded; ragged ones keep their own. Sparse
    ones get the largest shape in the batch, unless all have a known one.

    Args:
        spec: The spec of the elements that are joined.
    """
    return all(
        isinstance(component, (tf.TensorSpec, tf.RaggedTensorSpec))
        or (isinstance(component, tf.SparseTensorSpec) and component.shape.is_fully_defined())
        for component in tf.nest.flatten(spec)
    )
