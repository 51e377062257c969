"""What is exchanged in one graph: compared between ranks, logged, and kept for reports."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence

from tnt_keras.collectives.agreement import Agreement, PlannedCall
from tnt_keras.collectives.exchanged_value import ExchangedValue
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_size


@dataclasses.dataclass(frozen=True)
class PlannedExchange:
    """What ranks exchange together.

    Attributes:
        where: "inside": the step goes on with the results; "end": the last exchange of the step;
            "control flow": a single value in a branch or loop, or of unknown size.
        calls: The values.
        num_bytes: Of this rank's values, as far as their sizes are known.
        num_updates: How many of them reach an optimizer's update.
    """

    where: str
    calls: tuple[PlannedCall, ...]
    num_bytes: int
    num_updates: int

    def __str__(self) -> str:
        """Return a line of the log."""
        return f"{self.where}, {self.num_bytes} bytes: " + "; ".join(map(str, self.calls))


class ExchangePlan:
    """The exchanges of one graph, in the order in which they are traced.

    Args:
        title: Of the graph, for messages: "train_step 2".
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._agreement = Agreement(title)
        self._exchanges: list[PlannedExchange] = []
        self._num_logged = 0

    @property
    def exchanges(self) -> tuple[PlannedExchange, ...]:
        """Those that were traced up to now."""
        return tuple(self._exchanges)

    def add(self, where: str, values: Sequence[ExchangedValue]) -> None:
        """Add what ranks exchange together. Local.

        Args:
            where: See `PlannedExchange`.
            values: What they exchange.
        """
        exchange = f"exchange {len(self._exchanges) + 1} ({where})"
        calls = tuple(
            PlannedCall(exchange, value.what, value.request.name, value.request.line)
            for value in values
        )
        for call in calls:
            self._agreement.note(call)
        if calls:
            num_bytes = sum(value.num_bytes for value in values)
            num_updates = sum(value.request.is_update for value in values)
            self._exchanges.append(PlannedExchange(where, calls, num_bytes, num_updates))

    def agree(self) -> list[str]:
        """Compare with other ranks what was added since the last time. Collective.

        Returns:
            What the values are called on the master rank.

        Raises:
            tnt_comm.MismatchError: On all ranks, if it differs; names the first difference.
        """
        if get_size() == 1:
            return []
        return self._agreement.reach()

    def log(self) -> None:
        """Log at DEBUG the exchanges that were not logged yet. Local."""
        exchanges = self._exchanges[self._num_logged :]
        self._num_logged = len(self._exchanges)
        if not exchanges or not logger.isEnabledFor(logging.DEBUG):
            return
        num_bytes = sum(exchange.num_bytes for exchange in exchanges)
        num_calls = sum(len(exchange.calls) for exchange in exchanges)
        logger.debug(
            "%s: %d exchanges of %d tensors, %d bytes",
            *(self._title, len(exchanges), num_calls, num_bytes),
        )
        for exchange in exchanges:
            logger.debug("%s: %s", self._title, exchange)
