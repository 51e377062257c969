"""Values of each kind of number, and of which every bit of a sum can be predicted.

In one place of the arrays at most one rank has a NaN or an infinity, or two ranks have infinities
of opposite signs: which of two NaNs an addition gives is the choice of the compiler, on processors
too.
"""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (makes numpy know bfloat16)
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]

DTYPES = ("float32", "float64", "float16", "bfloat16")
NAN_DISTANCE = 8
_EXPONENT_BITS = {"float32": 8, "float64": 11, "float16": 5, "bfloat16": 8}


def special_values(dtype: str, rank: int, size: int, count: int) -> Array:
    """What a rank adds: first each kind of number against each, then patterns of bits. Pure."""
    named = _pairs_of(dtype, rank, size)[:count]
    patterns = _patterns_of(dtype, rank, size, count - len(named))
    return np.concatenate([named, patterns]).view(np.dtype(dtype))


def unsigned_of(dtype: str) -> np.dtype[np.unsignedinteger]:
    """The type whose numbers are the bits of that one. Pure."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def _infinity_of(dtype: str) -> int:
    bits = 8 * np.dtype(dtype).itemsize
    exponent_bits = _EXPONENT_BITS[dtype]
    return ((1 << exponent_bits) - 1) << (bits - 1 - exponent_bits)


def _named(dtype: str) -> list[int]:
    """Bits of 0, 1, the smallest and largest subnormal and normal numbers; then of minus those."""
    infinity = _infinity_of(dtype)
    one_exponent = infinity & -infinity
    one = (infinity >> 1) & infinity
    sign = 1 << (8 * np.dtype(dtype).itemsize - 1)
    positive = [0, 1, one_exponent - 1, one_exponent, one, infinity - 1]
    return [*positive, *(number | sign for number in positive)]


def _pairs_of(dtype: str, rank: int, size: int) -> Array:
    """All pairs of named numbers on neighbouring ranks, then pairs with infinities and NaNs."""
    named, infinity = _named(dtype), _infinity_of(dtype)
    sign, quiet, zero = named[6], (infinity & -infinity) >> 1, 0
    special = [infinity, infinity | sign, infinity | 1, infinity | sign | quiet | 5]
    pairs = [(a, b) for a in named for b in named]
    pairs += [pair for a in special for b in named for pair in ((a, b), (b, a))]
    pairs += [(infinity, infinity | sign), (infinity | sign, infinity), (zero, zero)]
    # Each pair is once on each two neighbours of the ring; the others add zeros.
    return np.array(
        [
            pair[(rank - first) % size] if (rank - first) % size < 2 else zero
            for first in range(size)
            for pair in pairs
        ],
        unsigned_of(dtype),
    )


def _patterns_of(dtype: str, rank: int, size: int, count: int) -> Array:
    """Any bits; in some places those of a NaN on the rank whose turn it is."""
    unsigned, infinity = unsigned_of(dtype), _infinity_of(dtype)
    random = np.random.default_rng([rank, *dtype.encode()])
    patterns = random.integers(np.iinfo(unsigned).max, size=count, dtype=unsigned, endpoint=True)
    exponent = unsigned.type(infinity)
    # With uniform exponents, most sums would be the larger number: some have one, some are small.
    patterns[1::4] = patterns[1::4] & ~exponent | exponent & unsigned.type(infinity >> 1)
    patterns[2::4] &= ~exponent  # subnormal
    patterns[(patterns & exponent) == exponent] &= ~unsigned.type(infinity & -infinity)  # finite
    has_nan = np.arange(count) % NAN_DISTANCE == NAN_DISTANCE - 1
    is_turn = np.arange(count) // NAN_DISTANCE % size == rank
    # The others are below 2 there, so that none becomes infinite when it is rounded to 16 bits.
    patterns[has_nan] &= ~unsigned.type(infinity & ~(infinity >> 1))
    patterns[has_nan & is_turn] |= exponent
    return patterns
