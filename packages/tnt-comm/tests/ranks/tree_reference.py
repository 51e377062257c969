"""The order of summation, written down naively with numpy."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8")
NUMPY_OPS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def ops_of(dtype: str) -> list[str]:
    """The operations that are defined for a dtype."""
    if dtype == "bool":
        return ["min", "max", "and", "or"]
    return ["sum", "prod", "min", "max", *(["and", "or"] if dtype in INTEGERS else [])]


def values(dtype: str, count: int, rank: int, seed: int = 0) -> Array:
    """Values of one rank, the same whoever computes them.

    Floats differ widely in size, so that another order of summation would
    give other bits.
    """
    random = np.random.default_rng([seed, rank, count])
    if dtype == "bool":
        return random.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return random.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    spread = 2.0 ** random.integers(-6, 7, count)
    return (random.standard_normal(count) * spread).astype(resolve(dtype))


def resolve(dtype: str) -> np.dtype[Any]:
    """numpy's dtype of that name."""
    return np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)


def tree(arrays: Sequence[Array], op: str) -> Array:
    """Combines the arrays of all ranks in the documented order."""
    dtype = arrays[0].dtype
    is_half = dtype.itemsize == 2 and dtype.kind not in "iu"
    level = [array.astype(np.float32) if is_half else array for array in arrays]
    with np.errstate(all="ignore"):
        while len(level) > 1:
            fold = next(p for p in range(2, len(level) + 1) if len(level) % p == 0)
            level = [reduce(NUMPY_OPS[op], level[i : i + fold]) for i in range(0, len(level), fold)]
        return level[0].astype(dtype)


def assert_same_bits(received: Array, expected: Array) -> None:
    """Equal in shape, dtype and every bit."""
    assert received.dtype == expected.dtype
    assert received.shape == expected.shape
    if received.tobytes() != expected.tobytes():
        np.testing.assert_array_equal(received, expected)  # shows where
        raise AssertionError("equal values with different bits")
