"""Ranks of a trainer: those of Tarantella, or a plain Keras program that never imports it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import keras

Value = TypeVar("Value")


class ParallelMethods(str, enum.Enum):
    """What `--distribute` may be; equal to the word.

    Attributes:
        TNT: Tarantella, on as many ranks as the launcher has started.
        NONE: Plain Keras in one process.
    """

    TNT = "tnt"
    NONE = "none"


class Distribution:
    """The ranks that train together. Plain Keras: one rank, and every method does nothing.

    Args:
        method: Who distributes.
    """

    def __init__(self, method: ParallelMethods) -> None:
        self.method = method
        self._tnt: Any = None
        if method is ParallelMethods.TNT:
            import tarantella as tnt

            self._tnt = tnt

    @property
    def rank(self) -> int:
        """Number of this rank, from 0."""
        return int(self._tnt.get_rank()) if self._tnt else 0

    @property
    def size(self) -> int:
        """Number of ranks."""
        return int(self._tnt.get_size()) if self._tnt else 1

    @property
    def is_master(self) -> bool:
        """Whether this rank writes what is written once."""
        return self.rank == 0

    def wrap(self, model: keras.Model, strategy: str = "data") -> keras.Model:
        """Return the model that trains on all ranks. Local.

        Args:
            model: Before `compile`.
            strategy: Lower-case name of a `tnt.ParallelStrategy`.
        """
        if not self._tnt:
            return model
        return self._tnt.Model(
            model, parallel_strategy=self._tnt.ParallelStrategy[strategy.upper()]
        )

    def on_master(
        self, callback: keras.callbacks.Callback, *, aggregate_logs: bool = True
    ) -> keras.callbacks.Callback:
        """Return a callback that only the master rank runs. Local.

        Args:
            callback: Any.
            aggregate_logs: Whether it gets the logs of all ranks or those of its own samples.
        """
        if not self._tnt:
            return callback
        return self._tnt.keras.callbacks.Callback(
            callback, aggregate_logs=aggregate_logs, run_on_all_ranks=False
        )

    def gather(self, value: Value) -> list[Value]:
        """Return the values of all ranks, in rank order. Collective.

        Args:
            value: Picklable.
        """
        if self.size == 1:
            return [value]
        return list(self._tnt.allgather_object(value))

    def from_master(self, compute: Callable[[], Value]) -> Value:
        """Let the master rank compute a value, and return it on every rank. Collective.

        Args:
            compute: Called on the master alone; the value must be picklable.
        """
        if self.size == 1:
            return compute()
        value = compute() if self.is_master else None
        return self._tnt.broadcast_object(value)

    def counters(self) -> Any:
        """Return `tnt.comm.counters()`, what communication has cost so far, or None. Local."""
        return self._tnt.comm.counters() if self._tnt and self.size > 1 else None

    def print(self, *values: object) -> None:
        """Print once, whatever the number of ranks. Local."""
        if self.is_master:
            print(*values, flush=True)
