"""`tnt.data`: how datasets are shared between ranks. The names of tnt-data, some with all ranks."""

from __future__ import annotations

import tensorflow as tf

import tnt_data
from tnt_data import (
    BatchSizeError,
    DataError,
    MicroBatch,
    NotBatchedError,
    UnsupportedElementError,
    global_batch_size,
    is_batched,
    micro_batch_size,
    slice_batches,
)
from tnt_keras.api.dataset import DistributedDataset, distribute
from tnt_keras.inputs.arguments import errors_naming
from tnt_keras.legacy.batches import Dataset
from tnt_keras.process.lanes import given_lanes
from tnt_keras.process.rank import get_size, is_master_rank

__all__ = [
    "Dataset",
    "DistributedDataset",
    "explain",
    "distribute",
    "global_batch_size",
    "is_batched",
    "micro_batch_size",
    "slice_batches",
    "MicroBatch",
    "DataError",
    "BatchSizeError",
    "NotBatchedError",
    "UnsupportedElementError",
]


def explain(
    dataset: tf.data.Dataset, size: int | None = None, *, tnt_micro_batch_size: int | None = None
) -> None:
    """Print on the master rank how ranks share a dataset, transformation by transformation. Local.

    `tnt_data.explain` gives the same as text.

    Args:
        dataset: As for `fit`.
        size: Number of ranks, by default all. With lanes they must divide their number.
        tnt_micro_batch_size: As for `fit`.

    Raises:
        ValueError: As for `fit`.
    """
    number = get_size() if size is None else size
    with errors_naming("dataset", "tnt_micro_batch_size"):
        text = tnt_data.explain(
            dataset, number, lanes=given_lanes(), micro_batch_size=tnt_micro_batch_size
        )
    if is_master_rank():
        print(text)
