"""What is exchanged in one graph, and what comes before it in the graph.

Ranks compare it while the graph is traced. The order lets no ranks wait for each other for ever.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

import tnt_comm
from tnt_keras.calls.agree import first_difference
from tnt_keras.calls.messages import allgather_json
from tnt_keras.exchange import ops
from tnt_keras.process.comm_interface import REDUCTIONS
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size, logger

if TYPE_CHECKING:  # the lanes of a partition know nothing of exchanges, nor these of lanes
    from tnt_keras.partition import Request

_MUST_BE_ORDERED = (
    "An operation that runs a function with exchanges, such as a `While` or `If`, must be made "
    "by `StepExchange.ordered`: else ranks could come to other exchanges before it."
)


@dataclasses.dataclass(frozen=True)
class PlannedCall:
    """One value of a graph that all ranks exchange; `what` and `exchange` are equal on all."""

    what: str  # "sum of float32 (3, 2)"
    name: str
    line: str  # of the user's source, "" if there is none
    num_bytes: int = 0  # of this rank's value, 0 if not known
    exchange: str = ""  # "exchange 2 (end)"

    def __str__(self) -> str:
        """Return a part of a sentence, without the exchange."""
        return f"{self.what} for {source_of(repr(self.name), self.line)}"


def source_of(name: str, line: str) -> str:
    """Return how messages call a value, such as "dense/MatMul (model.py:3)". Pure."""
    return f"{name} ({line})" if line else name


@dataclasses.dataclass(frozen=True, eq=False)
class ExchangedValue:
    """A request, and what is needed to perform it."""

    request: Request
    form: ops.WireForm
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
    unchanged = ops.WireForm(kind, value, lambda received: received)
    form = ops.wire_form(kind, value) if kind in REDUCTIONS else unchanged
    text = f"{graph}, {kind} {number} of {value.dtype.name}"
    return ExchangedValue(request, form, ops.Label(text, source_of(request.name, request.line)))


class ExchangePlan:
    """The exchanges of one graph, in the order in which they are traced.

    Where traces of ranks differ, ranks would wait for ever or take each other's values for their
    own. So plans are compared now and then; names and lines may differ, and are only shown.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._exchanges: list[tuple[str, list[PlannedCall]]] = []
        self._pending: list[PlannedCall] = []
        self._num_compared = 0
        self._num_logged = 0

    def add(self, where: str, calls: Sequence[PlannedCall]) -> None:
        """Add what ranks exchange together; `where` is "inside", "end" or "control flow". Local."""
        if calls:
            exchange = f"exchange {len(self._exchanges) + 1} ({where})"
            calls = [dataclasses.replace(call, exchange=exchange) for call in calls]
            self._exchanges.append((where, calls))
            self._pending += calls

    def agree(self) -> list[str]:
        """Compare what is new with other ranks; return its sources on the master. Collective."""
        if get_size() == 1:
            return []
        own, self._pending = list(map(dataclasses.astuple, self._pending)), []
        messages = allgather_json(f"plan of {self._title}", own, after_building=True)
        of_ranks = [[PlannedCall(*entry) for entry in message] for message in messages]
        difference = first_difference(
            [[(call.exchange, call.what) for call in calls] for calls in of_ranks]
        )
        if difference is not None:
            index, [rank, *_] = difference
            raise tnt_comm.MismatchError(
                f"Rank {get_rank()}: ranks do not exchange the same values in {self._title}. As "
                f"number {self._num_compared + index + 1}, rank {MASTER_RANK} has "
                f"{_shown(of_ranks[MASTER_RANK], index)}, rank {rank} has "
                f"{_shown(of_ranks[rank], index)}. Every rank must run the same program on the "
                "same model."
            )
        self._num_compared += len(of_ranks[MASTER_RANK])
        return [source_of(call.name, call.line) for call in of_ranks[MASTER_RANK]]

    def log(self) -> None:
        """Log at DEBUG the exchanges that were not logged yet. Local."""
        exchanges = self._exchanges[self._num_logged :]
        self._num_logged = len(self._exchanges)
        if not exchanges or not logger.isEnabledFor(logging.DEBUG):
            return
        sizes = [sum(call.num_bytes for call in calls) for _, calls in exchanges]
        logger.debug(
            "%s: %d exchanges of %d tensors, %d bytes",
            *(self._title, len(exchanges), sum(len(calls) for _, calls in exchanges), sum(sizes)),
        )
        for (where, calls), size in zip(exchanges, sizes, strict=True):
            texts = "; ".join(map(str, calls))
            logger.debug("%s: %s, %d bytes: %s", self._title, where, size, texts)


def _shown(calls: Sequence[PlannedCall], index: int) -> str:
    if index >= len(calls):
        return "nothing more"
    return f"{calls[index]} in {calls[index].exchange}"


@dataclasses.dataclass
class _Position:
    """How far the exchanges of one graph are."""

    graph: Any
    token: tf.Tensor | None = None  # of the last exchange
    has_open_function: bool = False  # exchanges in a function whose operation is not ordered yet


class ExchangeOrder:
    """The order of the exchanges of a graph, and of those in the functions of branches and loops.

    All ranks come to exchanges in the order in which they were traced: in each graph and function
    an exchange takes the token of the one before, and `ordered` makes what runs a function with
    exchanges. Such functions need automatic control dependencies, as `tf.cond`, `tf.while_loop` and
    `tf.function` give them: then what runs them ends after their exchanges, and so does an
    iteration.

    It belongs to the graph that is being traced when it is created.
    """

    def __init__(self) -> None:
        self._graph = _current_graph()
        self._positions: dict[int, _Position] = {}

    def is_in_function(self) -> bool:
        """Return whether a branch or loop of the graph is being traced. Local."""
        return _current_graph() is not self._graph

    @contextlib.contextmanager
    def next(self) -> Iterator[tf.Tensor]:
        """Give the token of what comes before the next exchange of the current graph. Local.

        What is traced inside waits for all inputs of a function: for its iteration.
        """
        position = self._position()
        if position.has_open_function:
            raise RuntimeError(_MUST_BE_ORDERED)
        if position.graph is not self._graph:
            self._position(position.graph.outer_graph).has_open_function = True
        given = list(position.graph.inputs) if self.is_in_function() else []
        with tf.control_dependencies(given):
            yield tf.zeros([], tf.int32) if position.token is None else position.token

    def finished(self, token: tf.Tensor) -> None:
        """Note the token of the exchange that was traced last in the current graph. Local."""
        self._position().token = token

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make what runs functions with exchanges, in its place among the exchanges. Local.

        `make` returns at least one tensor: the outputs, or what depends on them.
        """
        position = self._position()
        position.has_open_function = False
        with self.next() as previous, tf.control_dependencies([previous]):
            made = make()
        with tf.control_dependencies(made):
            position.token = tf.identity(previous)
        position.has_open_function = False
        return made

    def require_complete(self) -> None:
        """Refuse operations that run functions with exchanges and were not ordered. Local."""
        if any(position.has_open_function for position in self._positions.values()):
            raise RuntimeError(_MUST_BE_ORDERED)

    def _position(self, graph: Any = None) -> _Position:
        graph = _current_graph() if graph is None else graph
        return self._positions.setdefault(id(graph), _Position(graph))


def _current_graph() -> Any:
    return tf.compat.v1.get_default_graph()
