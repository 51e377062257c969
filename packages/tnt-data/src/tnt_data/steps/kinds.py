"""What each step of TensorFlow does to elements."""

from __future__ import annotations

from tnt_data.pipeline import Kind

KINDS = {
    **dict.fromkeys(
        (
            *("range", "from_tensor_slices", "from_tensors", "from_sparse_tensor_slices"),
            *("TFRecordDataset", "TextLineDataset", "FixedLengthRecordDataset"),
        ),
        Kind.SOURCE,
    ),
    "random": Kind.RANDOM,
    "batch": Kind.BATCH,
    "parallel batch": Kind.BATCH,
    "padded_batch": Kind.PADDED_BATCH,
    "sparse_batch": Kind.OTHER_BATCH,
    "rebatch": Kind.OTHER_BATCH,
    "unbatch": Kind.UNBATCH,
    "shuffle": Kind.SHUFFLE,
    "cache": Kind.CACHE,
    "snapshot": Kind.CACHE,
    **dict.fromkeys(
        (
            *("prefetch", "repeat", "take", "skip", "shard"),
            *("with_options", "assert_cardinality"),
        ),
        Kind.ARRANGE,
    ),
    **dict.fromkeys(
        (
            *("map", "parallel map", "filter", "take_while", "scan", "ragged", "unique"),
            *("ignore_errors", "restructure"),
        ),
        Kind.FUNCTION,
    ),
    **dict.fromkeys(
        ("flat_map", "interleave", "parallel interleave", "group_by_window", "window"),
        Kind.EXPAND,
    ),
    **dict.fromkeys(("zip", "concatenate", "sample_from_datasets"), Kind.MERGE),
}
"""Kinds by the names that `tnt_data.tensorflow_private` has for steps."""
