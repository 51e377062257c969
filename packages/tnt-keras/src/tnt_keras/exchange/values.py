"""The values of a graph that all ranks exchange: what is asked for, and how each dtype travels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

import tensorflow as tf

from tnt_keras.exchange import ops
from tnt_keras.exchange.exchange_plan import PlannedCall, source_of
from tnt_keras.exchange.ops import REDUCTIONS
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


if TYPE_CHECKING:  # the lanes of a partition know nothing of exchanges, nor these of lanes
    from tnt_keras.partition import Request


@dataclasses.dataclass(frozen=True, eq=False)
class ExchangedValue:
    """A request, and what is needed to perform it."""

    request: Request
    form: WireForm
    label: ops.Label

    @property
    def planned(self) -> PlannedCall:
        """What ranks compare, and the log shows."""
        request, shape = self.request, self.request.value.shape
        what = f"{request.kind} of {request.value.dtype.name}"
        if request.kind in REDUCTIONS and shape.rank is not None:
            what += f" ({', '.join('?' if size is None else str(size) for size in shape)})"
        if request.is_update:
            what = f"update: {what}"
        num_bytes = (shape.num_elements() or 0) * request.value.dtype.size
        return PlannedCall(what, request.name, request.line, num_bytes)

    @property
    def is_planned(self) -> bool:
        """Whether a sum over ranks travels, of a size that is known while the graph is traced."""
        return self.form.kind == "sum" and self.form.value.shape.is_fully_defined()

    @property
    def is_gathered(self) -> bool:
        """Whether blocks of other ranks' sizes travel."""
        return self.form.kind in ("gather", "broadcast")


def exchanged_value(request: Request, number: int, graph: str) -> ExchangedValue:
    """Return what is needed to perform a request; refuse dtypes that cannot travel. Local."""
    kind, value = request.kind, request.value
    if value.dtype in (tf.resource, tf.variant):
        raise TypeError(f"{request.name!r} cannot leave its rank: it is a {value.dtype.name}.")
    if kind in REDUCTIONS:
        form = wire_form(kind, value)
    else:
        form = WireForm(kind, value, lambda received: received)
    text = f"{graph}, {kind} {number} of {value.dtype.name}"
    return ExchangedValue(request, form, ops.Label(text, source_of(request.name, request.line)))
