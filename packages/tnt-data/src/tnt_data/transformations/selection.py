"""Transformations that pass on some of the elements, or all of them several times."""

from __future__ import annotations

from tnt_data.description.transformation import Kind
from tnt_data.transformations.dataset_class import DatasetClass, by_method, shown

CLASSES = (
    DatasetClass(
        "RepeatDataset",
        "repeat",
        Kind.ARRANGE,
        by_method("repeat", "count"),
        details=shown("count", unless=-1),
    ),
    DatasetClass(
        "TakeDataset", "take", Kind.ARRANGE, by_method("take", "count"), details=shown("count")
    ),
    DatasetClass(
        "SkipDataset", "skip", Kind.ARRANGE, by_method("skip", "count"), details=shown("count")
    ),
    DatasetClass(
        "ShardDataset",
        "shard",
        Kind.ARRANGE,
        by_method("shard", "num_shards", "index"),
        details=shown("num_shards", "index"),
    ),
)
