"""Make sure, while steps are traced, that all ranks are going to exchange the same."""

from __future__ import annotations

import dataclasses
import json

import tnt_comm
from tnt_keras.collectives.messages import allgather
from tnt_keras.process.rank import MASTER_RANK, get_rank


def source_of(name: str, line: str) -> str:
    """Return how messages call a value, such as "dense/MatMul (model.py:3)". Pure.

    Args:
        name: Of the value.
        line: Of the user's source, "" if there is none.
    """
    return f"{name} ({line})" if line else name


@dataclasses.dataclass(frozen=True)
class PlannedCall:
    """One value of a graph that all ranks exchange.

    Attributes:
        exchange: Of which it is a part, the same on all ranks: "exchange 2 (end)".
        what: What is exchanged, the same on all ranks: "sum of float32 (3, 2)".
        name: Of the value.
        line: Of the user's source, "" if there is none.
    """

    exchange: str
    what: str
    name: str
    line: str

    def __str__(self) -> str:
        """Return a part of a sentence, without the exchange."""
        return f"{self.what} for '{self.name}'" + (f" ({self.line})" if self.line else "")

    def is_like(self, other: PlannedCall) -> bool:
        """Return whether two ranks can take part in it together."""
        return (self.exchange, self.what) == (other.exchange, other.what)


class Agreement:
    """Compares, now and then, what ranks are going to exchange in a graph.

    What a rank exchanges follows from the graph that it has traced; where traces differ, ranks
    would wait for each other for ever, or take each other's values for their own. Names and lines
    may differ, and are only shown.

    Args:
        title: Of the graph, for messages: "train_step".
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._num_compared = 0
        self._pending: list[PlannedCall] = []

    def note(self, call: PlannedCall) -> None:
        """Remember what this rank is going to exchange next. Local."""
        self._pending.append(call)

    def reach(self) -> list[str]:
        """Compare what was noted since the last time. Collective.

        Returns:
            What the values are called on the master rank, see `source_of`.

        Raises:
            tnt_comm.MismatchError: On all ranks, if they differ; names the first difference.
        """
        own = json.dumps([dataclasses.astuple(call) for call in self._pending])
        self._pending = []
        messages = allgather(f"plan of {self._title}", own.encode())
        of_ranks = [[PlannedCall(*entry) for entry in json.loads(each)] for each in messages]
        reference = of_ranks[MASTER_RANK]
        for rank, calls in enumerate(of_ranks):
            self._require_same(reference, calls, rank)
        self._num_compared += len(reference)
        return [source_of(call.name, call.line) for call in reference]

    def _require_same(
        self, reference: list[PlannedCall], other: list[PlannedCall], rank: int
    ) -> None:
        for index in range(max(len(reference), len(other))):
            first = reference[index] if index < len(reference) else None
            second = other[index] if index < len(other) else None
            if first is not None and second is not None and first.is_like(second):
                continue
            raise tnt_comm.MismatchError(
                f"Rank {get_rank()}: ranks do not exchange the same in {self._title}. As number "
                f"{self._num_compared + index + 1} of it, rank {MASTER_RANK} has {_shown(first)}, "
                f"rank {rank} has {_shown(second)}. Every rank must run the same program on the "
                "same model."
            )


def _shown(call: PlannedCall | None) -> str:
    return "nothing more" if call is None else f"{call} in {call.exchange}"
