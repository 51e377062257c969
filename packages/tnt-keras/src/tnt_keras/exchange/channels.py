"""What all graphs of one step exchange values by: reducers and gatherers of tnt-comm, shared."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

import tnt_comm
from tnt_keras.exchange import ops
from tnt_keras.exchange.fusion import Fusion, announce, gradient_fusion
from tnt_keras.exchange.values import ExchangedValue


@dataclasses.dataclass(frozen=True)
class Summand:
    """A tensor that is to be summed over ranks."""

    name: str  # for messages, the same on all ranks
    dtype: str  # name of a dtype of tnt-comm
    num_elements: int

    @property
    def kind(self) -> tuple[str, int]:
        """What a place for it in a reducer must be made for."""
        return self.dtype, self.num_elements


@dataclasses.dataclass(frozen=True, eq=False)
class _PlannedReducer:
    """A reducer, and what its tensors were made for, in the order of its plan."""

    reducer: tnt_comm.GradientReducer
    summands: tuple[Summand, ...]


_Sizes: TypeAlias = tuple[tuple[str, int], ...]


@dataclasses.dataclass(frozen=True, eq=False)
class Place:
    """One of the tensors of a reducer."""

    reducer: tnt_comm.GradientReducer
    tensor_id: int  # number in its plan


class SharedReducers:
    """Reducers for lists of summands; lists of the same dtypes and sizes share one.

    Sums do not depend on the place of a summand, so it may be any of its dtype and size: the one
    that bears its name, unless lists `are_alike` but for their names, which may differ between
    ranks then. `phase` names, for the timeline, what happens while the summands come into being.
    """

    def __init__(
        self,
        name: str,
        choose_fusion: Callable[[], Fusion] = Fusion,
        phase: str = "",
        are_alike: bool = False,
    ) -> None:
        self._name = name
        self._choose_fusion = choose_fusion
        self._phase = phase
        self._are_alike = are_alike
        self._reducers: dict[_Sizes, _PlannedReducer] = {}

    def places(self, summands: Sequence[Summand]) -> list[Place]:
        """Return a place for each summand, all in one reducer. Collective unless there is one.

        Summands are given in the order in which they come into being.
        """
        if not summands:
            return []
        sizes = _sizes(summands)
        if sizes not in self._reducers:
            # A plan fills its buckets from the end.
            self._reducers[sizes] = self._make(summands[::-1])
        planned = self._reducers[sizes]
        ids = assigned(planned.summands[::-1], summands, by_name=not self._are_alike)
        return [Place(planned.reducer, len(ids) - 1 - index) for index in ids]

    def _make(self, summands: Sequence[Summand]) -> _PlannedReducer:
        fusion = self._choose_fusion()
        alike = ", or one like it" if self._are_alike else ""
        specs = [
            tnt_comm.TensorSpec(summand.name + alike, summand.dtype, summand.num_elements)
            for summand in summands
        ]
        plan = tnt_comm.FusionPlan(specs, fusion.threshold_bytes, fusion.wire_dtype)
        announce(self._name, plan)
        reducer = tnt_comm.GradientReducer(plan, name=self._name, phase=self._phase)
        return _PlannedReducer(reducer, tuple(summands))


class SharedGatherers:
    """Gatherers that are made when they are needed; a list of rows takes the first ones."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._gatherers: list[tnt_comm.Gatherer] = []

    def first(self, count: int) -> list[tnt_comm.Gatherer]:
        """Return so many of them. Collective unless there are."""
        while len(self._gatherers) < count:
            self._gatherers.append(tnt_comm.Gatherer(f"{self._name} {len(self._gatherers)}"))
        return self._gatherers[:count]


def assigned(places: Sequence[Summand], summands: Sequence[Summand], *, by_name: bool) -> list[int]:
    """Return the index of a place of its dtype and size for each summand, each place once. Pure.

    `by_name`: a summand gets the place that was made for its name, which ranks must have alike.
    """
    with_name = _grouped(range(len(places) if by_name else 0), lambda index: places[index])
    ids = [with_name[each].popleft() if with_name[each] else None for each in summands]
    free = set(range(len(places))) - set(ids)
    of_kind = _grouped(sorted(free), lambda index: places[index].kind)
    return [
        of_kind[summand.kind].popleft() if index is None else index
        for index, summand in zip(ids, summands, strict=True)
    ]


def _grouped(
    indices: Iterable[int], key: Callable[[int], Hashable]
) -> dict[Any, collections.deque[int]]:
    groups: dict[Any, collections.deque[int]] = collections.defaultdict(collections.deque)
    for index in indices:
        groups[key(index)].append(index)
    return groups


def _sizes(summands: Sequence[Summand]) -> _Sizes:
    return tuple(sorted(summand.kind for summand in summands))


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
