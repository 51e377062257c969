"""A value of a graph that all ranks exchange: what is asked for, and how it travels."""

from __future__ import annotations

import dataclasses
from typing import Protocol

import tensorflow as tf

from tnt_keras.collectives import ops
from tnt_keras.collectives.agreement import source_of
from tnt_keras.collectives.wire_forms import REDUCTIONS, WireForm, wire_form

_KINDS = (*REDUCTIONS, "gather", "broadcast")


class Request(Protocol):
    """A value of this rank that is to become one of all ranks.

    Attributes:
        kind: "sum", "prod", "max", "min", "and", "or": combined element by element; "gather": the
            rows of all ranks, in rank order; "broadcast": the value of rank 0.
        value: Of this rank. dtypes and shapes are the same on all ranks, but for the number of rows
            that are gathered, and the shape of what is broadcast.
        name: Of the value, for messages.
        line: Of the user's source, for messages; "" if there is none.
        is_update: Whether it is a total that reaches an optimizer's update.
    """

    @property
    def kind(self) -> str: ...  # noqa: D102
    @property
    def value(self) -> tf.Tensor: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def line(self) -> str: ...  # noqa: D102
    @property
    def is_update(self) -> bool: ...  # noqa: D102


@dataclasses.dataclass(frozen=True, eq=False)
class ExchangedValue:
    """A request, and what is needed to perform it.

    Attributes:
        request: What was asked for.
        form: What travels.
        label: Says on all ranks which value of which graph it is.
    """

    request: Request
    form: WireForm
    label: ops.Label

    @property
    def what(self) -> str:
        """What must be the same on all ranks, such as "sum of float32 (3, 2)"."""
        request, shape = self.request, self.request.value.shape
        text = f"{request.kind} of {request.value.dtype.name}"
        if request.kind in REDUCTIONS and shape.rank is not None:
            text += f" ({', '.join('?' if size is None else str(size) for size in shape)})"
        return f"update: {text}" if request.is_update else text

    @property
    def num_bytes(self) -> int:
        """The bytes of this rank's value, 0 if its size is not known."""
        return (self.request.value.shape.num_elements() or 0) * self.request.value.dtype.size

    @property
    def is_summed(self) -> bool:
        """Whether a sum over ranks travels."""
        return self.form.kind == "sum"

    @property
    def is_gathered(self) -> bool:
        """Whether blocks of other ranks' sizes travel."""
        return self.form.kind in ("gather", "broadcast")


def exchanged_value(request: Request, number: int, graph: str) -> ExchangedValue:
    """Return what is needed to perform a request. Local.

    Args:
        request: What is asked for.
        number: Of the value in its graph.
        graph: Title of the graph, the same on all ranks.

    Raises:
        ValueError: If there is no such kind, or a scalar is to be gathered.
        TypeError: If the dtype cannot be exchanged in this way.
    """
    kind, value = request.kind, request.value
    if kind not in _KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(_KINDS)}. Received: kind={kind!r}.")
    if value.dtype in (tf.resource, tf.variant):
        raise TypeError(f"{request.name!r} cannot leave its rank: it is a {value.dtype.name}.")
    if kind == "gather" and value.shape.rank == 0:
        raise ValueError(f"{request.name!r} has no rows to gather: it is a scalar.")
    if kind in REDUCTIONS:
        form = wire_form(kind, value)
    else:
        form = WireForm(kind, value, lambda received: received)
    text = f"{graph}, {kind} {number} of {value.dtype.name}"
    return ExchangedValue(request, form, ops.Label(text, source_of(request.name, request.line)))
