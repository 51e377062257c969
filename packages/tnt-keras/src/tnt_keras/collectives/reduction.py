"""The sum of a list of tensors over all ranks, inside a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

import tnt_comm
from tnt_keras.collectives import ops
from tnt_keras.collectives.fusion import Fusion, announce


@dataclasses.dataclass(frozen=True)
class ReductionKey:
    """What makes two lists of tensors alike, so that they can share buckets."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    num_elements: tuple[int, ...]


class Reduction:
    """Sums tensors over all ranks; its buckets are made once and used in every step.

    Creation is collective: every rank must create its reductions in the same order.

    Args:
        name: Shown in messages, such as "gradients".
        key: Names, dtypes and sizes of the tensors.
        fusion: How tensors share buckets and travel.
        phase: Names, for the timeline, what happens while the tensors come into being.

    Raises:
        tnt_comm.MismatchError: If ranks have different tensors; names the first that differs.
    """

    def __init__(self, name: str, key: ReductionKey, fusion: Fusion, phase: str = "") -> None:
        tensors = [
            tnt_comm.TensorSpec(tensor_name, dtype, num_elements)
            for tensor_name, dtype, num_elements in zip(
                key.names, key.dtypes, key.num_elements, strict=True
            )
        ]
        plan = tnt_comm.FusionPlan(tensors, fusion.threshold_bytes, fusion.wire_dtype)
        announce(name, plan)
        self._reducer = tnt_comm.GradientReducer(plan, name=name, phase=phase)

    def start(
        self, values: Sequence[tf.Tensor], scales: Sequence[tf.Tensor]
    ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
        """Starts the sum of `scale * value` for each tensor.

        Args:
            values: One tensor for each planned one.
            scales: One float64 scalar for each tensor.

        Returns:
            The tokens, and what `finish` takes.
        """
        tokens, pending = [], []
        for tensor_id, (value, scale) in enumerate(zip(values, scales, strict=True)):
            token, waiting = ops.start_reduce(value, scale, self._reducer, tensor_id)
            tokens.append(token)
            pending.append(waiting)
        return tokens, pending

    def finish(self, pending: Sequence[tf.Tensor], barrier: tf.Tensor) -> list[tf.Tensor]:
        """Waits for the sums.

        Args:
            pending: As returned by `start`.
            barrier: int32 scalar, see `Step.barrier`.

        Returns:
            The sums, like the values given to `start`; bitwise the same on every rank.
        """
        return [
            ops.finish_reduce(waiting, barrier, self._reducer, tensor_id)
            for tensor_id, waiting in enumerate(pending)
        ]


class ReductionCache:
    """The reductions of one owner, made when a list of tensors is seen for the first time.

    A graph may be traced several times (another input shape, `evaluate` after `fit`); lists of the
    same tensors share one reduction, since steps follow one another.

    Args:
        name: Shown in messages.
        choose_fusion: Called for the first reduction, on all ranks; by default everything of one
            dtype is one bucket.
        phase: As for `Reduction`.
    """

    def __init__(
        self, name: str, choose_fusion: Callable[[], Fusion] = Fusion, phase: str = ""
    ) -> None:
        self._name = name
        self._choose_fusion = choose_fusion
        self._phase = phase
        self._reductions: dict[ReductionKey, Reduction] = {}

    def get(self, names: Sequence[str], values: Sequence[tf.Tensor]) -> Reduction:
        """Returns the reduction for these tensors. Collective when they are seen first.

        Args:
            names: One name for each tensor, for messages.
            values: Tensors of fully known shapes.

        Returns:
            The reduction that sums them.
        """
        key = ReductionKey(
            names=tuple(names),
            dtypes=tuple(value.dtype.name for value in values),
            num_elements=tuple(value.shape.num_elements() for value in values),
        )
        if key not in self._reductions:
            fusion = self._choose_fusion()
            self._reductions[key] = Reduction(self._name, key, fusion, self._phase)
        return self._reductions[key]
