"""Errors of wrong use. All are `ValueError`s raised before any data is read."""

from __future__ import annotations

from typing import ClassVar


class DataError(ValueError):
    """A dataset or an argument that cannot be used; base of the errors below."""

    _symbol: ClassVar[str] = "unusable-data"

    def __str__(self) -> str:
        """Return the message, with the symbol once, at its end, even if it quotes an error."""
        mark = f" [{self._symbol}]"
        return super().__str__().replace(mark, "") + mark


class BatchSizeError(DataError):
    """Batch size, micro-batch size and number of ranks do not fit together."""

    _symbol = "batch-size"


class NotBatchedError(DataError):
    """The dataset yields single samples and no micro-batch size says how to batch them."""

    _symbol = "not-batched"


class UnsupportedElementError(DataError):
    """The elements have a component without rows that ranks could share."""

    _symbol = "unsupported-element"
