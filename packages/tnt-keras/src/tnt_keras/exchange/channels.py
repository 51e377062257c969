"""What graphs exchange values by: reducers and gatherers of tnt-comm, shared, and their fusion.

Tensors share buckets, and may be rounded while they travel.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

import tnt_comm
from tnt_keras.exchange import ops
from tnt_keras.exchange.exchange_plan import ExchangedValue
from tnt_keras.exchange.gpus import gpu_of_job, tell_what_sums
from tnt_keras.process.rank import logger, settings


@dataclasses.dataclass(frozen=True)
class Fusion:
    """How tensors share buckets and travel; by default, everything of one dtype together."""

    threshold_bytes: int = 2**62  # least size of a bucket; 0: no fusion
    wire_dtype: str | None = None  # of float32 tensors while they travel


@functools.cache
def gradient_fusion() -> Fusion:
    """Return how gradients are fused, measured if asked for. Collective when called first."""
    threshold_bytes = settings().fusion_threshold_bytes
    if threshold_bytes is None:
        link = tnt_comm.measure_link()
        threshold_bytes = tnt_comm.fusion_threshold_for(link)
        logger.info("%s", describe_choice(threshold_bytes, link))
    wire_dtype = settings().wire_dtype
    if wire_dtype is not None:
        effect = tnt_comm.measure_wire_effect(wire_dtype)
        logger.info("%s", describe_effect(wire_dtype, effect))
    return Fusion(threshold_bytes, wire_dtype)


def describe_choice(threshold_bytes: int, link: tnt_comm.Link) -> str:
    """Return the line that announces an automatic threshold. Pure."""
    return (
        f"fusion threshold auto: {threshold_bytes // 1024} kB (latency "
        f"{link.latency_s * 1e6:.0f} us, bandwidth {link.bytes_per_s / 1e9:.2g} GB/s)"
    )


def describe_effect(wire_dtype: str, effect: tnt_comm.WireEffect) -> str:
    """Return the line that says what compression was measured to do. Pure."""
    return (
        f"wire dtype {wire_dtype}: 4 MiB of float32 are summed in "
        f"{effect.compressed_s * 1e3:.2g} ms instead of {effect.plain_s * 1e3:.2g} ms, with a "
        f"relative error of {effect.relative_error:.1e}"
    )


def announce(name: str, plan: tnt_comm.FusionPlan) -> None:
    """Log what compression does to the tensors of a plan, if there is any. Local."""
    if plan.wire_dtype is None:
        return
    full = sum(bucket.num_bytes for bucket in plan.buckets) / 1e6
    sent = sum(bucket.num_wire_bytes for bucket in plan.buckets) / 1e6
    text = "%s travel as %s: %.3g MB instead of %.3g MB per rank and step"
    logger.info(text, name, plan.wire_dtype, sent, full)
    if plan.wire_dtype == "float16":
        logger.warning(
            "TNT_WIRE_DTYPE=float16: gradients and their sums over ranks become infinite beyond "
            "65504 and lose bits below 6e-5. bfloat16 has the range of float32. "
            "[float16-range]"
        )


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


class ReducerTensor(NamedTuple):
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
        # By dtypes and sizes; each with what it was made for.
        self._reducers: dict[Hashable, tuple[tnt_comm.GradientReducer, Sequence[Summand]]] = {}

    def tensors_for(self, summands: Sequence[Summand]) -> list[ReducerTensor]:
        """Return a place for each summand, all in one reducer. Collective unless there is one.

        Summands are given in the order in which they come into being.
        """
        if not summands:
            return []
        sizes = tuple(sorted(summand.kind for summand in summands))
        if sizes not in self._reducers:
            # A plan fills its buckets from the end.
            self._reducers[sizes] = self._make(summands[::-1]), summands
        reducer, made_for = self._reducers[sizes]
        ids = assigned(made_for, summands, by_name=not self._are_alike)
        return [ReducerTensor(reducer, len(ids) - 1 - index) for index in ids]

    def _make(self, summands: Sequence[Summand]) -> tnt_comm.GradientReducer:
        fusion = self._choose_fusion()
        alike = ", or one like it" if self._are_alike else ""
        specs = [
            tnt_comm.TensorSpec(summand.name + alike, summand.dtype, summand.num_elements)
            for summand in summands
        ]
        plan = tnt_comm.FusionPlan(specs, fusion.threshold_bytes, fusion.wire_dtype)
        announce(self._name, plan)
        gpu = gpu_of_job()
        reducer = tnt_comm.GradientReducer(plan, name=self._name, phase=self._phase, gpu=gpu)
        if gpu is not None:
            tell_what_sums(*reducer.gpu_sums)
        return reducer


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
    with_name: dict[Any, list[int]] = collections.defaultdict(list)
    for index in reversed(range(len(places) if by_name else 0)):
        with_name[places[index]].append(index)
    ids = [with_name[each].pop() if with_name[each] else None for each in summands]
    of_kind: dict[Any, list[int]] = collections.defaultdict(list)
    for index in sorted(set(range(len(places))) - set(ids), reverse=True):
        of_kind[places[index].kind].append(index)
    return [
        of_kind[summand.kind].pop() if index is None else index
        for index, summand in zip(ids, summands, strict=True)
    ]


Finish: TypeAlias = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]


@dataclasses.dataclass(frozen=True, eq=False)
class Transfer:
    """A value that all ranks exchange.

    `start`, given 1 as `ops.variable_of_one` holds it, returns the token of the start and what
    waits. That, given the barrier, returns the token of the finish and the result.
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

    def transfers(
        self, values: Sequence[ExchangedValue], names: Sequence[str]
    ) -> dict[ExchangedValue, Transfer]:
        """Return what starts at once: planned sums and rows. Collective unless all is there."""
        summands: dict[SharedReducers, dict[ExchangedValue, Summand]]
        summands = {self._updates: {}, self._totals: {}}
        for value, name in zip(values, names, strict=True):
            if value.is_planned:
                form = value.form.value
                reducers = self._updates if value.request.is_update else self._totals
                summands[reducers][value] = Summand(
                    name, form.dtype.name, form.shape.num_elements()
                )
        transfers = {
            value: _sum(value.form.value, tensor)
            for reducers, own in summands.items()
            for value, tensor in zip(own, reducers.tensors_for(list(own.values())), strict=True)
        }
        gathered = [value for value in values if value.is_gathered]
        for value, gatherer in zip(gathered, self._rows.first(len(gathered)), strict=True):
            transfers[value] = _gathered(value, gatherer)
        return transfers


def _sum(value: tf.Tensor, tensor: ReducerTensor) -> Transfer:
    reducer, number = tensor.reducer, tensor.tensor_id

    def start(one: tf.Tensor) -> tuple[tf.Tensor, Finish]:
        token, pending = ops.start_reduce(value, one, reducer, number)
        return token, lambda barrier: ops.finish_reduce(pending, barrier, reducer, number)

    return Transfer(reducer, start)


def _gathered(value: ExchangedValue, gatherer: tnt_comm.Gatherer) -> Transfer:
    kind, own, label = value.form.kind, value.form.value, value.label

    def start(one: tf.Tensor) -> tuple[tf.Tensor, Finish]:
        token = ops.start(kind, own, one, gatherer, label)
        return token, lambda barrier: ops.finish(kind, own, barrier, gatherer, label)

    return Transfer(gatherer, start)
