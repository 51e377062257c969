"""Reducers and gatherers that several graphs share."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import tnt_comm
from tnt_keras.exchange.fusion import Fusion, announce


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
