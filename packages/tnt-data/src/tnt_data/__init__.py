"""Splits batched `tf.data` pipelines between ranks: every step is exactly one serial batch."""

from tnt_data.distribution import distribute, explain
from tnt_data.errors import BatchSizeError, DataError, NotBatchedError, UnsupportedElementError
from tnt_data.micro_batch import MicroBatch

__all__ = [
    "distribute",
    "explain",
    "MicroBatch",
    "DataError",
    "BatchSizeError",
    "NotBatchedError",
    "UnsupportedElementError",
]
