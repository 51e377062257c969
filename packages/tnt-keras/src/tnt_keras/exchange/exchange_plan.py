"""What is exchanged in one graph: compared between ranks while the graph is traced, and logged."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

import tnt_comm
from tnt_keras.calls.agree import first_difference
from tnt_keras.calls.messages import allgather_json
from tnt_keras.process.output import logger
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size


@dataclasses.dataclass(frozen=True)
class PlannedCall:
    """One value of a graph that all ranks exchange; `what` and `exchange` are equal on all."""

    what: str  # "sum of float32 (3, 2)"
    name: str
    line: str  # of the user's source, "" if there is none
    num_bytes: int = 0  # of this rank's value, 0 if not known
    exchange: str = ""  # "exchange 2 (end)"

    def __str__(self) -> str:
        """Return a part of a sentence, without the exchange."""
        return f"{self.what} for {source_of(repr(self.name), self.line)}"


def source_of(name: str, line: str) -> str:
    """Return how messages call a value, such as "dense/MatMul (model.py:3)". Pure."""
    return f"{name} ({line})" if line else name


class ExchangePlan:
    """The exchanges of one graph, in the order in which they are traced.

    Where traces of ranks differ, ranks would wait for ever or take each other's values for their
    own. So plans are compared now and then; names and lines may differ, and are only shown.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._exchanges: list[tuple[str, list[PlannedCall]]] = []
        self._pending: list[PlannedCall] = []
        self._num_compared = 0
        self._num_logged = 0

    def add(self, where: str, calls: Sequence[PlannedCall]) -> None:
        """Add what ranks exchange together; `where` is "inside", "end" or "control flow". Local."""
        if calls:
            exchange = f"exchange {len(self._exchanges) + 1} ({where})"
            calls = [dataclasses.replace(call, exchange=exchange) for call in calls]
            self._exchanges.append((where, calls))
            self._pending += calls

    def agree(self) -> list[str]:
        """Compare what is new with other ranks; return its sources on the master. Collective."""
        if get_size() == 1:
            return []
        own, self._pending = list(map(dataclasses.astuple, self._pending)), []
        messages = allgather_json(f"plan of {self._title}", own, after_building=True)
        of_ranks = [[PlannedCall(*entry) for entry in message] for message in messages]
        difference = first_difference(
            [[(call.exchange, call.what) for call in calls] for calls in of_ranks]
        )
        if difference is not None:
            index, rank = difference.index, difference.ranks[0]
            raise tnt_comm.MismatchError(
                f"Rank {get_rank()}: ranks do not exchange the same in {self._title}. As number "
                f"{self._num_compared + index + 1} of it, rank {MASTER_RANK} has "
                f"{_shown(of_ranks[MASTER_RANK], index)}, rank {rank} has "
                f"{_shown(of_ranks[rank], index)}. Every rank must run the same program on the "
                "same model."
            )
        self._num_compared += len(of_ranks[MASTER_RANK])
        return [source_of(call.name, call.line) for call in of_ranks[MASTER_RANK]]

    def log(self) -> None:
        """Log at DEBUG the exchanges that were not logged yet. Local."""
        exchanges = self._exchanges[self._num_logged :]
        self._num_logged = len(self._exchanges)
        if not exchanges or not logger.isEnabledFor(logging.DEBUG):
            return
        of_all = [call for _, calls in exchanges for call in calls]
        logger.debug(
            "%s: %d exchanges of %d tensors, %d bytes",
            *(self._title, len(exchanges), len(of_all), _num_bytes(of_all)),
        )
        for where, calls in exchanges:
            texts = "; ".join(map(str, calls))
            logger.debug("%s: %s, %d bytes: %s", self._title, where, _num_bytes(calls), texts)


def _num_bytes(calls: Sequence[PlannedCall]) -> int:
    return sum(call.num_bytes for call in calls)


def _shown(calls: Sequence[PlannedCall], index: int) -> str:
    if index >= len(calls):
        return "nothing more"
    return f"{calls[index]} in {calls[index].exchange}"
