"""A value of a graph that all ranks exchange: what is asked for, and how it travels."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import tensorflow as tf

from tnt_keras.exchange import ops
from tnt_keras.exchange.exchange_plan import PlannedCall, source_of
from tnt_keras.exchange.ops import REDUCTIONS
from tnt_keras.exchange.wire_forms import WireForm, wire_form

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
