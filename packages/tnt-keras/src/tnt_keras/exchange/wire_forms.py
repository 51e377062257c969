"""How tensors of all dtypes are reduced over ranks by the dtypes that tnt-comm has."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tnt_keras.process.rank import get_size

_FLOATS = {tf.float16, tf.bfloat16, tf.float32, tf.float64}
_INTEGERS = {tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8}
_SIGNED = {tf.uint16: tf.int16, tf.uint32: tf.int32, tf.uint64: tf.int64}
_PARTS = {tf.complex64: tf.float32, tf.complex128: tf.float64}


@dataclasses.dataclass(frozen=True, eq=False)
class WireForm:
    """What travels in the place of a tensor."""

    kind: str  # a reduction, or "gather" where tensors travel as rows
    value: tf.Tensor  # of a dtype that tnt-comm has, unless gathered
    restore: Callable[[tf.Tensor], tf.Tensor]  # received tensor -> result


def wire_form(kind: str, value: tf.Tensor) -> WireForm:
    """Return what travels for a reduction over ranks. Local.

    Unsigned integers travel as signed ones of the same bits, of which sums and products have the
    same bits, too; for a minimum or maximum the highest bit is flipped, which keeps the order.
    Complex numbers are added up as pairs of reals; for a product all of them travel.
    """
    dtype = value.dtype
    if _is_native(kind, dtype):
        return WireForm(kind, value, lambda result: result)
    if dtype in _SIGNED:
        return _as_signed(kind, value)
    if dtype in _PARTS and kind == "sum":
        return WireForm(kind, tf.bitcast(value, _PARTS[dtype]), lambda x: tf.bitcast(x, dtype))
    if dtype in _PARTS and kind == "prod":
        return WireForm("gather", value[tf.newaxis], _product_of_rows)
    raise TypeError(f"There is no {kind!r} over ranks for tensors of {dtype.name}.")


def _is_native(kind: str, dtype: tf.DType) -> bool:
    if dtype in _FLOATS:
        return kind in ("sum", "prod", "min", "max")
    if dtype == tf.bool:
        return kind in ("min", "max", "and", "or")
    return dtype in _INTEGERS


def _as_signed(kind: str, value: tf.Tensor) -> WireForm:
    dtype = value.dtype
    signed = _SIGNED[dtype]
    if kind not in ("min", "max"):
        return WireForm(kind, tf.bitcast(value, signed), lambda x: tf.bitcast(x, dtype))

    def flipped(x: tf.Tensor) -> tf.Tensor:
        return tf.bitwise.bitwise_xor(x, tf.constant(signed.min, signed))

    return WireForm(
        kind, flipped(tf.bitcast(value, signed)), lambda x: tf.bitcast(flipped(x), dtype)
    )


def _product_of_rows(rows: tf.Tensor) -> tf.Tensor:
    """Return the product in the order in which tnt-comm combines ranks: neighbours first."""
    level = tf.unstack(rows, num=get_size())
    while len(level) > 1:
        fold = next(p for p in range(2, len(level) + 1) if len(level) % p == 0)
        level = [_product(level[i : i + fold]) for i in range(0, len(level), fold)]
    return level[0]


def _product(factors: list[tf.Tensor]) -> tf.Tensor:
    product = factors[0]
    for factor in factors[1:]:
        product *= factor
    return product
