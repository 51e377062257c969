"""Splits batched `tf.data` pipelines between ranks: every step is exactly one serial batch."""

from tnt_data.distribution import distribute, explain, global_batch_size
from tnt_data.errors import BatchSizeError, DataError, NotBatchedError, UnsupportedElementError
from tnt_data.micro_batch import MicroBatch

__all__ = [
    "distribute",
    "explain",
    "global_batch_size",
    "MicroBatch",
    "DataError",
    "BatchSizeError",
    "NotBatchedError",
    "UnsupportedElementError",
]
