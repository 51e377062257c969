"""Errors of wrong use. All are `ValueError`s raised before any data is read."""

from __future__ import annotations


class DataError(ValueError):
    """A dataset or an argument that cannot be used; base of the errors below."""


class BatchSizeError(DataError):
    """Batch size, micro-batch size and number of ranks do not fit together."""


class NotBatchedError(DataError):
    """The dataset yields single samples and no micro-batch size says how to batch them."""


class UnsupportedElementError(DataError):
    """The elements have a component without rows that ranks could share."""
