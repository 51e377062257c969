"""Collectives on tensors of a graph, and the objects of tnt-comm that perform them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np
import tensorflow as tf

import tnt_comm
from tnt_keras.collectives import ops
from tnt_keras.collectives.fusion import Fusion, announce
from tnt_keras.collectives.messages import barrier


@dataclasses.dataclass(frozen=True, eq=False)
class Allreduce:
    """A tensor that is to be summed over all ranks.

    Attributes:
        name: Of the tensor, for messages.
        value: Tensor of fully known shape, the same on all ranks.
        scale: float64 scalar by which this rank's value is multiplied. Where it is 0 the rank
            contributes 0, even if the value is not finite. Not a constant of the graph.
    """

    name: str
    value: tf.Tensor
    scale: tf.Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class Allgather:
    """Rows that are to be concatenated over all ranks.

    Attributes:
        name: Of the rows, for messages.
        rows: Tensor of shape `(k, ...)`; `k` may differ between ranks and be 0.
        presence: float64 scalar. Where it is 0 no rows are sent. Not a constant of the graph.
    """

    name: str
    rows: tf.Tensor
    presence: tf.Tensor


Collective: TypeAlias = Allreduce | Allgather


class Operation(Protocol):
    """One collective of a graph, as two calls: `start`, then `finish`, which waits. Once each."""

    def start(self, after: Sequence[tf.Tensor]) -> tf.Tensor:
        """Begin it without waiting for other ranks, and return the token of the start. Local.

        Args:
            after: Tensors that must exist before the collective begins.
        """
        ...

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Wait for the result, and return the token of the finish and the result. Collective.

        Args:
            barrier: int32 scalar, see `tnt_keras.collectives.ops`.
        """
        ...

    def skip(self) -> tf.Tensor:
        """Return what stands for the result where it is not performed: zeros, or no rows. Local."""
        ...


class Channel:
    """The collectives of one purpose, such as gradients, with the objects that perform them.

    A channel makes a reducer or gatherer when a list of collectives is seen for the first time, and
    uses it in every step. A graph may be traced several times (another input shape, `evaluate`
    after `fit`); equal lists share their reducers and gatherers, since steps follow one another.

    Creating reducers and gatherers is collective: every rank must bring the same lists of
    collectives in the same order. A barrier comes first, which names the calls and the users' lines
    if ranks are about to exchange different things.

    Args:
        name: Of the purpose, shown in messages: "gradients".
        choose_fusion: Called before the first reducer is made, on all ranks; by default everything
            of one dtype is one bucket.
        phase: Names, for the timeline, what happens while the summed tensors come into being.
    """

    def __init__(
        self, name: str, choose_fusion: Callable[[], Fusion] = Fusion, phase: str = ""
    ) -> None:
        self._name = name
        self._choose_fusion = choose_fusion
        self._phase = phase
        self._reducers: dict[tuple[tnt_comm.TensorSpec, ...], tnt_comm.GradientReducer] = {}
        self._gatherers: dict[tuple[str, ...], list[tnt_comm.Gatherer]] = {}

    def operations(self, collectives: Sequence[Collective]) -> list[Operation]:
        """Return the operations that perform these collectives, in their order.

        Collective when the list is seen for the first time.

        Args:
            collectives: What all ranks exchange together.

        Raises:
            TypeError: If one is neither an `Allreduce` nor an `Allgather`.
            ValueError: If the size of a tensor to be summed is not known while the graph is traced.
            tnt_comm.MismatchError: If ranks have different tensors; names the first that differs.
        """
        for collective in collectives:
            if not isinstance(collective, Allreduce | Allgather):
                raise TypeError(
                    f"Ranks exchange `Allreduce`s and `Allgather`s. Received: {collective!r}."
                )
        reductions = iter(self._reductions([c for c in collectives if isinstance(c, Allreduce)]))
        gathers = iter(self._gathers([c for c in collectives if isinstance(c, Allgather)]))
        return [
            next(reductions) if isinstance(collective, Allreduce) else next(gathers)
            for collective in collectives
        ]

    def gatherers(self, names: Sequence[str]) -> list[tnt_comm.Gatherer]:
        """Return the gatherers of a list of `Allgather`s. Collective when it is seen first.

        Args:
            names: Those of the list.
        """
        key = tuple(names)
        if key not in self._gatherers:
            barrier(f"first exchange of {self._name}")
            self._gatherers[key] = [tnt_comm.Gatherer(name) for name in names]
        return self._gatherers[key]

    def gather_without_graph(self, name: str, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Take part in an `Allgather` that other ranks perform in a graph. Collective.

        Args:
            name: Of the one `Allgather`, which must be all that the graph exchanges by the channel.
            rows: Of this rank.

        Returns:
            The rows of all ranks.
        """
        [gatherer] = self.gatherers([name])
        gatherer.start(rows)
        return np.concatenate(gatherer.finish())

    def _reductions(self, summands: list[Allreduce]) -> list[Operation]:
        if not summands:
            return []
        specs = tuple(_spec(summand) for summand in summands)
        if specs not in self._reducers:
            barrier(f"first exchange of {self._name}")
            fusion = self._choose_fusion()
            plan = tnt_comm.FusionPlan(list(specs), fusion.threshold_bytes, fusion.wire_dtype)
            announce(self._name, plan)
            self._reducers[specs] = tnt_comm.GradientReducer(
                plan, name=self._name, phase=self._phase
            )
        reducer = self._reducers[specs]
        return [_Reduction(summand, reducer, index) for index, summand in enumerate(summands)]

    def _gathers(self, gathered: list[Allgather]) -> list[Operation]:
        if not gathered:
            return []
        gatherers = self.gatherers([collective.name for collective in gathered])
        return [
            _Gather(collective, gatherer)
            for collective, gatherer in zip(gathered, gatherers, strict=True)
        ]


class _Reduction:
    def __init__(
        self, summand: Allreduce, reducer: tnt_comm.GradientReducer, tensor_id: int
    ) -> None:
        self._summand = summand
        self._reducer = reducer
        self._tensor_id = tensor_id

    def start(self, after: Sequence[tf.Tensor]) -> tf.Tensor:
        value = _delayed(self._summand.value, after)
        token, self._pending = ops.start_reduce(
            value, self._summand.scale, self._reducer, self._tensor_id
        )
        return token

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return ops.finish_reduce(self._pending, barrier, self._reducer, self._tensor_id)

    def skip(self) -> tf.Tensor:
        return tf.zeros(self._summand.value.shape, self._summand.value.dtype)


class _Gather:
    def __init__(self, gathered: Allgather, gatherer: tnt_comm.Gatherer) -> None:
        self._gathered = gathered
        self._gatherer = gatherer

    def start(self, after: Sequence[tf.Tensor]) -> tf.Tensor:
        rows = _delayed(self._gathered.rows, after)
        return ops.start_gather(rows, self._gathered.presence, self._gatherer)

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return ops.finish_gather(self._gathered.rows, barrier, self._gatherer)

    def skip(self) -> tf.Tensor:
        return tf.zeros([0, *self._gathered.rows.shape[1:]], self._gathered.rows.dtype)


def _delayed(tensor: tf.Tensor, after: Sequence[tf.Tensor]) -> tf.Tensor:
    if not after:
        return tensor
    with tf.control_dependencies(after):
        return tf.identity(tensor)


def _spec(summand: Allreduce) -> tnt_comm.TensorSpec:
    num_elements = summand.value.shape.num_elements()
    if num_elements is None:
        raise ValueError(
            f"The shape of {summand.name!r} must be known before the step runs, to plan its sum "
            f"over ranks. Received: shape {summand.value.shape}."
        )
    return tnt_comm.TensorSpec(summand.name, summand.value.dtype.name, num_elements)
