"""Change the values of one component of samples in some rows.

Each function takes which rows to change and the component, a tensor of shape `(samples, ...)`. It
returns another tensor like it, or the component itself if that cannot have such values.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.step.variables import is_number

Array: TypeAlias = "np.ndarray[Any, Any]"

LARGE = 16.0
"""What real numbers are multiplied by: a power of two, so that nothing is rounded."""

NEXT = np.inf
"""Stands for the integer after the largest label."""


def of_another_kind(are_labels: bool, is_changed: Array, leaf: Any) -> Any:
    """Return a component with values of another kind in some rows, or the component itself."""
    if isinstance(leaf, tf.RaggedTensor):
        return _first_halves(leaf, is_changed)
    if not _has_rows(leaf):
        return leaf
    rows = _rows(is_changed, leaf)
    if leaf.dtype == tf.string:
        kept = tf.where(rows, tf.strings.length(leaf) // 2, tf.strings.length(leaf))
        return tf.strings.substr(leaf, tf.zeros_like(kept), kept)
    if not is_number(leaf.dtype):
        return leaf
    values = leaf.numpy()
    other = _other_numbers(values, are_labels)
    return leaf if other is None else tf.constant(np.where(rows, other, values))


def larger(is_changed: Array, leaf: Any) -> Any:
    """Return a component with larger numbers in some rows, itself if it has no real ones."""
    if not _is_real(leaf):
        return leaf
    values = leaf.numpy()
    # Of three neighbours one keeps its sign: whatever the data's, all parts have large numbers.
    factors = np.where(np.arange(len(values)) % 3 == 1, LARGE, -LARGE)
    factors = np.where(is_changed, factors, 1.0)
    return tf.constant(values * _rows(factors, leaf).astype(values.dtype))


def scaled_down(is_changed: Array, leaf: Any) -> Any:
    """Return a component divided by a power of two, itself if its numbers are not large."""
    if not _has_rows(leaf) or not leaf.dtype.is_floating:
        return leaf
    values = leaf.numpy()
    largest = np.abs(values.astype(np.float64)).max(initial=0.0, where=np.isfinite(values))
    if largest <= LARGE:
        return leaf
    down = np.ldexp(values, -np.frexp(largest)[1])
    return tf.constant(np.where(_rows(is_changed, leaf), down, values), leaf.dtype)


def shorter(is_changed: Array, leaf: Any) -> Any:
    """Return integers of which some rows end with zeros, itself if it has no rows of integers."""
    if not _has_rows(leaf) or not leaf.dtype.is_integer or leaf.shape.rank < 2:
        return leaf
    values = leaf.numpy()
    if _are_codes(values):
        return leaf
    length = leaf.shape[1]
    is_padding = np.outer(is_changed, np.arange(length) >= (length + 1) // 2)
    is_padding = is_padding.reshape(*is_padding.shape, *[1] * (leaf.shape.rank - 2))
    padded = np.where(is_padding, 0, values)
    return leaf if np.array_equal(padded, values) else tf.constant(padded, leaf.dtype)


def missing_or_new(late: float, is_changed: Array, leaf: Any) -> Any:
    """Return a component in which some samples have one value, itself if they cannot have it."""
    if not _has_rows(leaf):
        return leaf
    values = leaf.numpy()
    if leaf.dtype.is_integer:
        late = int(values.max(initial=0)) + 1 if late == NEXT else late
        can_be = leaf.dtype.min <= late <= leaf.dtype.max
    else:
        can_be = leaf.dtype.is_floating and (bool(np.isnan(late)) or late == -1)
    if not can_be or (values == late).any() or _are_codes(values):
        return leaf
    return tf.constant(np.where(_rows(is_changed, leaf), values.dtype.type(late), values))


def rare_input(is_changed: Array, leaf: Any) -> Any:
    """Return a component in which some rows are outliers, shorter, or have flags."""
    for change in (_outliers, shorter, _rare_flags):
        leaf = change(is_changed, leaf)
    return leaf


def rare_label(is_changed: Array, leaf: Any) -> Any:
    """Return a component in which some rows have a label that no other row has."""
    if not _has_rows(leaf) or not is_number(leaf.dtype):
        return leaf
    if _are_classes(leaf):
        return missing_or_new(NEXT, is_changed, leaf)
    changed = _outliers(is_changed, leaf)
    return changed if changed is not leaf else _rare_flags(is_changed, leaf)


def rare_zero(is_changed: Array, leaf: Any) -> Any:
    """Return a component in which some rows are of class 0, if all others are of class 1."""
    if not _has_rows(leaf) or not _are_classes(leaf) or (leaf.numpy() != 1).any():
        return leaf
    return _rare_flags(is_changed, leaf)


def repeated(is_changed: Array, leaf: Any) -> Any:
    """Return integers or strings of which some rows are the first one's, if they were others."""
    if not _has_rows(leaf) or not (leaf.dtype.is_integer or leaf.dtype == tf.string):
        return leaf
    values = leaf.numpy()
    repeating = np.where(_rows(is_changed, leaf), values[:1], values)
    return leaf if np.array_equal(repeating, values) else tf.constant(repeating, leaf.dtype)


def _outliers(is_changed: Array, leaf: Any) -> Any:
    """Return a component with large positive numbers in some rows, if it has real ones."""
    if not _is_real(leaf):
        return leaf
    values = leaf.numpy()
    large = np.abs(values) * values.dtype.type(LARGE)
    return tf.constant(np.where(_rows(is_changed, leaf), large, values))


def _rare_flags(is_changed: Array, leaf: Any) -> Any:
    """Return a component in which some rows have ones or zeros, or a code, that no other has."""
    if not _has_rows(leaf) or not is_number(leaf.dtype):
        return leaf
    values = leaf.numpy()
    numbers = values.astype(np.float64)
    is_same = (numbers == numbers[0]).all(axis=0) & np.isin(numbers[0], (0, 1))
    rare = np.where(is_same, 1 - numbers, numbers)
    if _are_codes(values):
        is_free = ~values.reshape(-1, values.shape[-1]).any(axis=0)
        rare = np.eye(len(is_free))[np.argmax(is_free)] if is_free.any() else numbers
    if np.array_equal(np.broadcast_to(rare, numbers.shape), numbers):
        return leaf
    return tf.constant(np.where(_rows(is_changed, leaf), rare, numbers).astype(values.dtype))


def _has_rows(leaf: Any) -> bool:
    return isinstance(leaf, tf.Tensor) and leaf.shape.rank > 0


def _rows(of_rows: Array, leaf: tf.Tensor) -> Array:
    """Return one value for each row in a shape that goes with the component's."""
    return of_rows.reshape(-1, *[1] * (leaf.shape.rank - 1))


def _other_numbers(values: Array, are_labels: bool) -> Array | None:
    """Return numbers that samples might have too, in the shape of the samples or of one of them."""
    numbers = values.astype(np.float64)
    are_integers = not _are_real(values)
    are_single = numbers[0].size == 1
    known = np.unique(numbers)
    if _are_signs(values):
        return None
    if are_single and len(known) == 1 and known[0] not in (0.0, 1.0):
        are_lengths = are_labels and values.dtype.kind in "iu" and known[0] > 0
        return values // 2 if are_lengths else None
    if are_single and are_integers and len(known) == len(numbers) > 2:
        return None
    if _are_codes(values):
        return np.roll(values, 1, axis=-1)
    is_always_zero = ~values.any(axis=0)
    return np.where(is_always_zero & are_integers, 1, 0).astype(values.dtype)


def _is_real(leaf: Any) -> bool:
    """Return whether a component has rows of real numbers, not all of them whole ones."""
    return _has_rows(leaf) and leaf.dtype.is_floating and _are_real(leaf.numpy())


def _are_real(values: Array) -> bool:
    """Return whether some number is no whole one."""
    numbers = values.astype(np.float64)
    return bool((numbers != np.round(numbers)).any())


def _are_classes(leaf: tf.Tensor) -> bool:
    """Return whether a component has integers that may number classes."""
    if not leaf.dtype.is_integer:
        return False
    values = leaf.numpy()
    return not _are_codes(values) and not _are_signs(values)


def _are_signs(values: Array) -> bool:
    known = np.unique(values.astype(np.float64))
    return np.array_equal(known, [-1.0, 1.0]) or np.array_equal(known, [-1.0])


def _are_codes(values: Array) -> bool:
    """Return whether samples say by ones among zeros which of some classes they belong to."""
    if values.ndim < 2 or not np.array_equal(np.unique(values), [0, 1]):
        return False
    num_ones = values.astype(np.float64).sum(axis=-1)
    return bool((num_ones == num_ones.flat[0]).all() and 0 < num_ones.flat[0] < values.shape[-1])


def _first_halves(leaf: tf.RaggedTensor, is_changed: Array) -> tf.RaggedTensor:
    lengths = leaf.row_lengths()
    kept = tf.where(is_changed, (lengths + 1) // 2, lengths)
    places = tf.ragged.range(kept) + leaf.row_starts()[:, tf.newaxis]
    return tf.RaggedTensor.from_row_lengths(tf.gather(leaf.values, places.flat_values), kept)
