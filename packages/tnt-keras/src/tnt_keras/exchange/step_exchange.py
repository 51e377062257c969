"""The exchanges of one graph of a step: groups of values, and single ones, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

import tensorflow as tf

import tnt_comm
from tnt_keras.calls.errors import MARK_OF_CHECKS
from tnt_keras.exchange import ops
from tnt_keras.exchange.channels import (
    ExchangeChannels,
    SharedGatherers,
    SharedReducers,
    Transfer,
    gradient_fusion,
)
from tnt_keras.exchange.exchange_plan import (
    ExchangedValue,
    ExchangeOrder,
    ExchangePlan,
    exchanged_value,
)
from tnt_keras.process.fences import fenced
from tnt_keras.process.rank import get_size

if TYPE_CHECKING:
    from tnt_keras.partition import Request

_DIFFERENT = (
    "Ranks have read batches of different sizes, which they cannot share. All ranks must receive "
    "the same data."
)


class StepChannels:
    """What all graphs of one step exchange values by: its shapes of the batch follow one another.

    Sums that reach an optimizer's update are fused, and rounded while they travel, as the user
    wants; all others of an exchange are one bucket for each dtype, and never rounded. The last
    exchange of a graph has objects of its own, since its sums start before others are finished.

    Graphs refer to these objects by number: they can run as long as this object lives, no longer.
    """

    def __init__(self, title: str) -> None:
        ops.variable_of_one()
        self.at_end = ExchangeChannels(
            SharedReducers("values at the end of the step"),
            SharedGatherers("rows at the end of the step"),
            SharedReducers("gradients", gradient_fusion, "backpropagation"),
        )
        self.inside = ExchangeChannels(
            SharedReducers("values inside of the step", are_alike=True),
            SharedGatherers("rows inside of the step"),
        )
        self.in_control_flow = SharedGatherers("rows in branches and loops of the step")
        self._title = title
        self._num_graphs = 0

    def new_exchange(self, sizes: Request | None = None) -> StepExchange:
        """Return the exchanges of the graph that is being traced, such as "train_step 2". Local.

        `sizes` is a sum, in the last group, of sizes that must be the same on all ranks.
        """
        self._num_graphs += 1
        return StepExchange(self, f"{self._title} {self._num_graphs}", sizes)


class StepExchange:
    """The exchanges of one graph, in an order in which ranks cannot wait for each other for ever.

    An exchange is a group of values: `ask` for each of them, then `flush`. All of a group start,
    come to one barrier, and are finished, whichever results the graph uses. Starts wait for their
    tensor alone, so that a gradient is on its way while backpropagation goes on, and for the former
    use of their object of tnt-comm in the graph. Values that are combined otherwise than by a sum,
    or whose size is known only when the graph runs, follow the barrier.

    Groups come one after the other: no operation of a group waits before all starts of its group
    and all of the previous group are done on this rank. Then there is no cycle of waiting among
    ranks, however few threads they have: at the first group at which a rank waits, every other rank
    either waits in it too, hence has made its starts, or is not blocked and will make them.

    Single values are `blocking` between groups, also in branches and loops, in the order of the
    trace. What runs the functions of branches and loops is made by `ordered`.

    Every rank must ask for the same in the same order, which ranks compare while the graph is
    traced; what travels without a plan is compared again whenever it does. An exchange belongs to
    the graph that is being traced when it is created, which can run as long as the channels live.
    On one rank, which has lanes then, results are the values themselves.
    """

    def __init__(self, channels: StepChannels, title: str, sizes: Request | None) -> None:
        self._channels = channels
        self._title = title
        self._sizes = sizes
        self._plan = ExchangePlan(title)
        self._order = ExchangeOrder()
        self._asked: list[ExchangedValue] = []
        self._num_values = 0
        self._last_uses: dict[Hashable, tf.Tensor] = {}
        self.num_buckets = 0

    def ask(self, request: Request) -> None:
        """Remember a value; it takes part in the next `flush`. Local."""
        self._asked.append(self._value_of(request))

    def flush(self, last: bool) -> list[tf.Tensor]:
        """Exchange all that was asked for; results are bitwise the same on all. Collective.

        `last`: the step goes on without rows of other ranks. Called so at the end even without
        values, it compares what ranks have not compared yet.
        """
        if self._order.is_in_function():
            raise RuntimeError("Groups of values are exchanged outside of branches and loops.")
        if not last or self._sizes is None:
            return self._flush(last)
        self.ask(self._sizes)
        *results, sums = self._flush(last)
        are_right = tf.reduce_all(sums == self._sizes.value * tf.cast(get_size(), sums.dtype))
        tf.debugging.Assert(are_right, [MARK_OF_CHECKS + _DIFFERENT])
        return results

    def _flush(self, last: bool) -> list[tf.Tensor]:
        values, self._asked = self._asked, []
        self._plan.add("end" if last else "inside", [value.planned for value in values])
        if get_size() == 1:
            results = {value: fenced(value.request.value) for value in values}
        else:
            names = self._plan.agree()
            channels = self._channels.at_end if last else self._channels.inside
            transfers = channels.transfers(values, names[len(names) - len(values) :])
            results = self._exchange(values, transfers)
        if last:
            self._order.require_complete()
            self._plan.log()
        return [results[value] for value in values]

    def blocking(self, request: Request) -> tf.Tensor:
        """Exchange a value at once, also in a branch or loop, unfused and unrounded. Collective.

        It is performed as often as the graph comes to it, whether its result is used or not: all
        ranks must take the same branches, and as many iterations.
        """
        value = self._value_of(request)
        self._plan.add("control flow", [value.planned])
        if get_size() == 1:
            return fenced(request.value)
        self._plan.agree()
        form, label = value.form, value.label
        with self._order.next() as after:
            if value.is_gathered:
                [gatherer] = self._channels.in_control_flow.first(1)
                token, result = ops.at_once(form.kind, form.value, after, gatherer, label)
            else:
                token, result = ops.allreduce(form.value, after, form.kind, label)
        self._order.finished(token)
        return form.restore(result)

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        """Make an operation, such as a `While`, that runs functions with exchanges. Local."""
        return make() if get_size() == 1 else self._order.ordered(make)

    def _value_of(self, request: Request) -> ExchangedValue:
        self._num_values += 1
        return exchanged_value(request, self._num_values, self._title)

    def _exchange(
        self, values: Sequence[ExchangedValue], transfers: dict[ExchangedValue, Transfer]
    ) -> dict[ExchangedValue, tf.Tensor]:
        if not values:
            return {}
        one = ops.variable_of_one().read_value()
        started = {}
        for value, each in transfers.items():
            last_uses = [self._last_uses[each.owner]] if each.owner in self._last_uses else []
            with tf.control_dependencies(last_uses):
                started[value] = each.start(one)
        updates = {each.owner for value, each in transfers.items() if value.request.is_update}
        reducers = [owner for owner in updates if isinstance(owner, tnt_comm.GradientReducer)]
        self.num_buckets += sum(len(reducer.plan.buckets) for reducer in reducers)
        with self._order.next() as previous:
            barrier = tf.add_n([*(token for token, _ in started.values()), previous])
        finished = {value: finish(barrier) for value, (_, finish) in started.items()}
        finished.update(_combined([value for value in values if value not in transfers], barrier))
        token = tf.add_n([token for token, _ in finished.values()])
        ops.run_in_any_case(token)
        self._order.finished(token)
        self._last_uses.update((each.owner, token) for each in transfers.values())
        return {value: value.form.restore(result) for value, (_, result) in finished.items()}


def _combined(
    values: Sequence[ExchangedValue], token: tf.Tensor
) -> dict[ExchangedValue, tuple[tf.Tensor, tf.Tensor]]:
    """Return token and result of what is combined after the barrier: equal kinds together."""
    groups: dict[Hashable, list[ExchangedValue]] = {}
    for value in values:
        travelling = value.form.value
        is_known = travelling.shape.is_fully_defined()
        key = (value.form.kind, travelling.dtype) if is_known else value
        groups.setdefault(key, []).append(value)
    finished = {}
    for group in groups.values():
        token, results = _combined_together(group, token)
        for value, result in zip(group, results, strict=True):
            finished[value] = token, result
    return finished


def _combined_together(
    values: Sequence[ExchangedValue], after: tf.Tensor
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    kind, label = values[0].form.kind, values[0].label
    travelling = [value.form.value for value in values]
    if len(values) == 1:
        token, result = ops.allreduce(travelling[0], after, kind, label)
        return token, [result]
    more = f" and {len(values) - 1} more"
    flat = tf.concat([tf.reshape(each, [-1]) for each in travelling], 0)
    label = ops.Label(label.label + more, label.caller + more)
    token, together = ops.allreduce(flat, after, kind, label)
    parts = tf.split(together, [each.shape.num_elements() for each in travelling])
    return token, [tf.reshape(p, each.shape) for p, each in zip(parts, travelling, strict=True)]
