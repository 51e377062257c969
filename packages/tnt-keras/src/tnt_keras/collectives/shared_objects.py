"""Reducers and gatherers that several graphs share."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import tnt_comm
from tnt_keras.collectives.fusion import Fusion, announce


@dataclasses.dataclass(frozen=True)
class Summand:
    """A tensor that is to be summed over ranks.

    Attributes:
        name: For messages, the same on all ranks.
        dtype: Name of a dtype of tnt-comm.
        num_elements: Its size.
    """

    name: str
    dtype: str
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
    """One of the tensors of a reducer.

    Attributes:
        reducer: The reducer.
        tensor_id: Number of the tensor in its plan.
    """

    reducer: tnt_comm.GradientReducer
    tensor_id: int


class SharedReducers:
    """Reducers for lists of summands; lists of the same sizes share one.

    Sums do not depend on which place a summand has, so that places are given by dtype and size; of
    those of one size a summand gets the one that bears its name, if names are expected to be the
    same.

    Args:
        name: Of the reducers, for messages.
        choose_fusion: Called before the first one is made, on all ranks.
        phase: Names, for the timeline, what happens while the summands come into being.
        are_alike: Whether lists with other names are expected: names in messages say so, and names
            are not looked at, so that they may differ between ranks.
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
        """Return a place for each summand, in the order in which they come into being.

        All are in one reducer. Collective unless there is one.
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
    """Gatherers that are made when they are needed. A list of rows takes the first ones.

    Args:
        name: Of the gatherers, for messages.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._gatherers: list[tnt_comm.Gatherer] = []

    def first(self, count: int) -> list[tnt_comm.Gatherer]:
        """Return so many of them. Collective unless there are."""
        while len(self._gatherers) < count:
            self._gatherers.append(tnt_comm.Gatherer(f"{self._name} {len(self._gatherers)}"))
        return self._gatherers[:count]


def assigned(places: Sequence[Summand], summands: Sequence[Summand], *, by_name: bool) -> list[int]:
    """Return the index of a place for each summand, each once. Pure.

    Args:
        places: What the places were made for; as many of each dtype and size as there are summands.
        summands: What they are wanted for.
        by_name: Whether a summand gets the place that was made for its name, if there is one; then
            the names must be the same on all ranks.
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
