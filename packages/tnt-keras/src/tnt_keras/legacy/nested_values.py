"""Scalars, arrays, tensors and nests of them as arrays to send, and results as what was given."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tnt_comm.arrays
from tnt_keras.process.rank import get_rank

Array = np.ndarray[Any, Any]
_LOW_BITS = np.int64(2**32 - 1)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """What one value of a nest is."""

    kind: type  # class of Python numbers, `np.generic`, `np.ndarray` or `tf.Tensor`
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def is_scalar(self) -> bool:
        """Whether it is a number, not an array or tensor of one."""
        return self.kind not in (np.ndarray, tf.Tensor)

    def restore(self, array: Array) -> Any:
        """Return a result as a value of the same kind. Local."""
        if self.kind is tf.Tensor:
            return tf.convert_to_tensor(array)
        if self.kind is np.ndarray or array.ndim > 0:
            return array
        return self.kind(array[()]) if issubclass(self.kind, (bool, int, float)) else array[()]

    def __str__(self) -> str:
        """Describe it for messages."""
        if self.is_scalar and self.kind is not np.generic:
            return self.kind.__name__
        name = {np.generic: "NumPy scalar", np.ndarray: "array"}.get(self.kind, "tensor")
        shape = f" of shape {self.shape}" if not self.is_scalar else ""
        return f"{self.dtype} {name}{shape}"


def leaf_of(value: Any) -> Leaf:
    """Return what a value is; refuse kinds, dtypes and ints that cannot be sent. Local."""
    kind = _kind_of(value)
    array = as_array(value)
    tnt_comm.arrays.dtype_name(array.dtype)
    return Leaf(kind, array.dtype, array.shape)


def labels_of(nest: Any, leaves: list[Leaf], name: str) -> list[str]:
    """Return a label for each value of a nest, or one for an empty nest. Local.

    Labels differ where structures do, so that ranks notice it in the first messages that do not
    fit: "TensorAllreducer: scalar 1 of 2 at ['loss']".
    """
    if not leaves:
        return [f"{name}: no values"]
    return [
        f"{name}: {'array' if leaf.shape else 'scalar'} {number} of {len(leaves)}"
        + (f" at {path}" if path else "")
        for number, (leaf, path) in enumerate(zip(leaves, _paths(nest), strict=True), start=1)
    ]


def flattened(nest: Any) -> list[Any]:
    """Return the values of a nest, dicts in the order of their sorted keys. Local."""
    try:
        return list(tf.nest.flatten(nest))
    except TypeError as error:
        raise TypeError(
            f"Rank {get_rank()}: values of a dict are sent in the order of its sorted keys, but "
            f"these cannot be sorted: {error}. Give it keys of one type."
        ) from None


def as_array(value: Any) -> Array:
    """Return a copy of a value, which stays as it is while it is sent. Local."""
    if _kind_of(value) is not int:
        return np.array(value)
    try:
        return np.array(value, np.int64)
    except OverflowError:
        raise ValueError(
            f"Rank {get_rank()}: an int must be in [-2**63, 2**63) to be sent. Received: {value}."
        ) from None


def halves_of(number: Array) -> Array:
    """Return `[high, low]` of an int64 `high * 2**32 + low`, low in [0, 2**32). Local.

    Sums of halves over less than 2**31 members do not wrap around.
    """
    return np.array([number >> 32, number & _LOW_BITS])


def joined_halves(sums: Array) -> int:
    """Return the number whose halves have been added up, of any size. Pure."""
    high, low = sums.tolist()
    return int(high * 2**32 + low)


def _paths(nest: Any) -> list[str]:
    """Return where each value of a nest is, in its order: "['a'][0]", "" if it is no nest."""
    if isinstance(nest, Mapping):
        inside = [(repr(key), nest[key]) for key in sorted(nest)]
    elif isinstance(nest, (list, tuple)):
        inside = [(str(index), value) for index, value in enumerate(nest)]
    else:  # a value, or a nest of a kind that only TensorFlow knows
        return ["" for _ in tf.nest.flatten(nest)]
    return [f"[{key}]{path}" for key, value in inside for path in _paths(value)]


def _kind_of(value: Any) -> type:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"Rank {get_rank()}: a masked array cannot be sent, since its mask would be lost: give "
            "`array.filled(0)`, or its data and its mask."
        )
    if isinstance(value, (np.generic, np.ndarray)):
        return np.ndarray if isinstance(value, np.ndarray) else np.generic
    for kind in (bool, int, float):  # a bool is an int, too
        if isinstance(value, kind):
            return kind
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return tf.Tensor
    raise TypeError(
        f"Rank {get_rank()}: a {type(value).__name__} cannot be sent, only numbers, NumPy arrays, "
        "eager tensors, and lists, tuples and dicts of these: convert it (a variable by "
        "`variable.numpy()`) or leave it out."
    )
