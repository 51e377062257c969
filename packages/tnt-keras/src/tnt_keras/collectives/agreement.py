"""Make sure, while steps are traced, that all ranks are going to exchange the same."""

from __future__ import annotations

import dataclasses
import json

import tnt_comm
from tnt_keras.collectives.messages import allgather
from tnt_keras.process.rank import MASTER_RANK, get_rank


@dataclasses.dataclass(frozen=True)
class PlannedCall:
    """One value of a graph that all ranks exchange.

    Attributes:
        what: What must be the same on all ranks, such as "inside: sum of float32 (3, 2)".
        name: Of the value.
        line: Of the user's source, "" if there is none.
    """

    what: str
    name: str
    line: str

    def __str__(self) -> str:
        """Return a part of a sentence."""
        return f"{self.what} for '{self.name}'" + (f" ({self.line})" if self.line else "")


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
            The names that the values have on the master rank.

        Raises:
            tnt_comm.MismatchError: On all ranks, if they differ; names the first difference.
        """
        own = json.dumps([[call.what, call.name, call.line] for call in self._pending])
        self._pending = []
        messages = allgather(f"plan of {self._title}", own.encode())
        of_ranks = [[PlannedCall(*entry) for entry in json.loads(each)] for each in messages]
        reference = of_ranks[MASTER_RANK]
        for rank, calls in enumerate(of_ranks):
            self._require_same(reference, calls, rank)
        self._num_compared += len(reference)
        return [call.name for call in reference]

    def _require_same(
        self, reference: list[PlannedCall], other: list[PlannedCall], rank: int
    ) -> None:
        for index in range(max(len(reference), len(other))):
            first = reference[index] if index < len(reference) else None
            second = other[index] if index < len(other) else None
            if first is not None and second is not None and first.what == second.what:
                continue
            raise tnt_comm.MismatchError(
                f"Rank {get_rank()}: ranks do not exchange the same in {self._title}. As number "
                f"{self._num_compared + index + 1} of it, rank {MASTER_RANK} exchanges "
                f"{first or 'nothing more'}, rank {rank} {second or 'nothing more'}. Every rank "
                "must run the same program on the same model."
            )
