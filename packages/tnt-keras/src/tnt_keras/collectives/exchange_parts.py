"""The parts of an exchange in a graph: each starts, and is finished when all have started."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Protocol

import tensorflow as tf

import tnt_comm
from tnt_keras.collectives import ops
from tnt_keras.collectives.shared_objects import Place


class Part(Protocol):
    """A value that all ranks exchange, as two calls: `start`, then `finish`. Once each."""

    @property
    def owner(self) -> Hashable:
        """What begins nothing new for this value before it has finished."""
        ...

    def start(self, one: tf.Tensor) -> tf.Tensor:
        """Begin without waiting for other ranks, and return the token of the start. Local.

        Args:
            one: As `ops.one` returns it.
        """
        ...

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Wait, and return the token of the finish and the result. Collective.

        Args:
            barrier: int32 scalar, see `tnt_keras.collectives.ops`.
        """
        ...


class SumPart:
    """A sum over ranks.

    Args:
        value: Of this rank.
        place: Where it is summed.
    """

    def __init__(self, value: tf.Tensor, place: Place) -> None:
        self._value = value
        self._place = place

    @property
    def owner(self) -> Hashable:
        """The reducer."""
        return self._place.reducer

    def start(self, one: tf.Tensor) -> tf.Tensor:
        """Begin, as `Part` says. Local."""
        token, self._pending = ops.start_reduce(
            self._value, one, self._place.reducer, self._place.tensor_id
        )
        return token

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Wait, as `Part` says. Collective."""
        return ops.finish_reduce(self._pending, barrier, self._place.reducer, self._place.tensor_id)


@dataclasses.dataclass(frozen=True, eq=False)
class GatherPart:
    """Rows of all ranks.

    Attributes:
        rows: Of this rank.
        owner: The gatherer.
        label: Of the call.
    """

    rows: tf.Tensor
    owner: tnt_comm.Gatherer
    label: ops.Label

    def start(self, one: tf.Tensor) -> tf.Tensor:
        """Begin, as `Part` says. Local."""
        return ops.start_gather(self.rows, one, self.owner, self.label)

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Wait, as `Part` says. Collective."""
        return ops.finish_gather(self.rows, barrier, self.owner, self.label)


@dataclasses.dataclass(frozen=True, eq=False)
class BroadcastPart:
    """The value of rank 0.

    Attributes:
        value: Of this rank; only its dtype matters on others than rank 0.
        owner: The gatherer.
        label: Of the call.
    """

    value: tf.Tensor
    owner: tnt_comm.Gatherer
    label: ops.Label

    def start(self, one: tf.Tensor) -> tf.Tensor:
        """Begin, as `Part` says. Local."""
        return ops.start_broadcast(self.value, one, self.owner, self.label)

    def finish(self, barrier: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Wait, as `Part` says. Collective."""
        return ops.finish_broadcast(self.value, barrier, self.owner, self.label)
