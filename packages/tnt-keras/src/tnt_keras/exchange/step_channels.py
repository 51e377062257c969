"""What all graphs of one step exchange values by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import TypeAlias

import tensorflow as tf

import tnt_comm
from tnt_keras.exchange import ops
from tnt_keras.exchange.exchanged_value import ExchangedValue
from tnt_keras.exchange.fusion import gradient_fusion
from tnt_keras.exchange.shared_objects import Place, SharedGatherers, SharedReducers, Summand

Finish: TypeAlias = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """A value that all ranks exchange.

    `start`, given 1 as `ops.variable_of_one` holds it, returns the token of the start and what
    waits. That, given the barrier, returns the token of the finish and the result. Each is called
    once.
    """

    owner: Hashable  # begins nothing new for this value before it has finished
    start: Callable[[tf.Tensor], tuple[tf.Tensor, Finish]]


class ExchangeChannels:
    """The objects of tnt-comm for exchanges of one purpose; `updates` are sums for optimizers."""

    def __init__(
        self, totals: SharedReducers, rows: SharedGatherers, updates: SharedReducers | None = None
    ) -> None:
        self._totals = totals
        self._rows = rows
        self._updates = totals if updates is None else updates

    def parts(
        self, values: Sequence[ExchangedValue], names: Sequence[str]
    ) -> dict[ExchangedValue, Part]:
        """Return what starts at once: planned sums and rows. Collective unless all is there.

        `names` are for messages, the same on all ranks.
        """
        summands: dict[SharedReducers, dict[ExchangedValue, Summand]]
        summands = {self._updates: {}, self._totals: {}}
        for value, name in zip(values, names, strict=True):
            if value.is_planned:
                travelling = value.form.value
                summand = Summand(name, travelling.dtype.name, travelling.shape.num_elements())
                reducers = self._updates if value.request.is_update else self._totals
                summands[reducers][value] = summand
        parts: dict[ExchangedValue, Part] = {}
        for reducers, of_reducers in summands.items():
            places = reducers.places(list(of_reducers.values()))
            for value, place in zip(of_reducers, places, strict=True):
                parts[value] = _sum(value.form.value, place)
        gathered = [value for value in values if value.is_gathered]
        for value, gatherer in zip(gathered, self._rows.first(len(gathered)), strict=True):
            parts[value] = _gathered(value, gatherer)
        return parts


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

    def next_graph(self) -> str:
        """Return the title of a graph that is going to be traced, such as "train_step 2". Local."""
        self._num_graphs += 1
        return f"{self._title} {self._num_graphs}"


def _sum(value: tf.Tensor, place: Place) -> Part:
    reducer, number = place.reducer, place.tensor_id

    def start(one: tf.Tensor) -> tuple[tf.Tensor, Finish]:
        token, pending = ops.start_reduce(value, one, reducer, number)
        return token, lambda barrier: ops.finish_reduce(pending, barrier, reducer, number)

    return Part(reducer, start)


def _gathered(value: ExchangedValue, gatherer: tnt_comm.Gatherer) -> Part:
    kind, own, label = value.form.kind, value.form.value, value.label

    def start(one: tf.Tensor) -> tuple[tf.Tensor, Finish]:
        token = ops.start(kind, own, one, gatherer, label)
        return token, lambda barrier: ops.finish(kind, own, barrier, gatherer, label)

    return Part(gatherer, start)
