"""Checks and conversions of the numpy arrays that callers pass."""

import operator
from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401  (makes numpy know bfloat16)
import numpy as np
import numpy.typing as npt

from tnt_comm import _core

Array = npt.NDArray[Any]

DTYPES: tuple[str, ...] = (
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
)


def dtype_name(dtype: npt.DTypeLike) -> str:
    """Return the name, one of `DTYPES`, of a dtype such as "bfloat16"; a ValueError for others."""
    resolved = np.dtype(dtype)
    if resolved in _KNOWN:  # numpy takes microseconds to name a dtype
        return _KNOWN[resolved]
    if resolved.name not in DTYPES or not resolved.isnative:
        raise ValueError(
            f"The dtype must be one of {', '.join(DTYPES)}, in native byte order. "
            f"Received: dtype={resolved!r}."
        )
    return resolved.name


_KNOWN: dict[np.dtype[Any], str] = {np.dtype(name): name for name in DTYPES}


def as_input(array: npt.ArrayLike) -> Array:
    """Return `array` as a C-contiguous array, copied only if it is not one already."""
    converted = np.asarray(array)
    dtype_name(converted.dtype)
    # Not np.ascontiguousarray, which turns scalars into vectors.
    return converted if converted.flags.c_contiguous else converted.copy(order="C")


def as_output(out: Array | None, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    """Return `out` if it can take a result of this shape and dtype, or a new array for `None`."""
    # The memory of a new array of 64 KiB or more is that of an earlier one which nobody holds any
    # more, if there is one that fits.
    if out is None:
        return _core.new_result(dtype, list(shape))
    if not isinstance(out, np.ndarray):
        raise TypeError(f"`out` must be a numpy array. Received: {type(out).__name__}.")
    if out.shape != tuple(shape) or out.dtype != dtype:
        raise ValueError(
            f"`out` must have shape {tuple(shape)} and dtype {dtype}. "
            f"Received: shape={out.shape}, dtype={out.dtype}."
        )
    if not (out.flags.c_contiguous and out.flags.writeable):
        raise ValueError(
            "`out` must be C-contiguous and writeable, since the result is written in place. "
            f"Received: c_contiguous={out.flags.c_contiguous}, writeable={out.flags.writeable}."
        )
    return out


def without_partial_overlap(array: Array, out: Array) -> Array:
    """Return `array`, or a copy if it shares memory with `out` and is not the same elements."""
    if array is out or not np.may_share_memory(array, out):
        return array
    is_same = array.ctypes.data == out.ctypes.data and array.nbytes == out.nbytes
    return array if is_same else array.copy()


def timeout_or_default(timeout_s: float | None) -> float:
    """Return the timeout for the core, where 0 stands for the job's `TNT_TIMEOUT_S`."""
    if timeout_s is None:
        return 0.0
    number = as_number(timeout_s, "`timeout_s`")
    if not number > 0:
        raise ValueError(f"`timeout_s` must be > 0. Received: timeout_s={timeout_s}.")
    return number


def as_number(value: float, argument: str) -> float:
    """Return a number as a float of Python; NumPy's are taken, texts are not."""
    try:
        if not isinstance(value, str | bytes):  # which float would read
            return float(value)
    except TypeError:
        pass
    raise TypeError(_wrong_type(argument, "a number", value))


def as_integer(value: int, argument: str, num_bits: int = 64) -> int:
    """Return an integer of Python; NumPy's are taken, texts, fractions and bools are not."""
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise TypeError(_wrong_type(argument, "an int", value))
    if not -1 << num_bits - 1 <= number < 1 << num_bits - 1:
        raise ValueError(f"{argument} must be an int of {num_bits} bits. Received: {number}.")
    return number


def as_text(value: str, argument: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise TypeError(_wrong_type(argument, "a str", value))
    return value


def _wrong_type(argument: str, kind: str, value: object) -> str:
    return f"{argument} must be {kind}. Received: {value!r} ({type(value).__name__})."
