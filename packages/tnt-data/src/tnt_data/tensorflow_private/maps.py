"""Which steps make one element of each, and how the results depend on the order of calls."""

from __future__ import annotations

import tensorflow as tf
from tensorflow.python.framework import config

from tnt_data.tensorflow_private.functions import is_identity
from tnt_data.tensorflow_private.row_wise import is_row_wise

_MAPS = ("_MapDataset", "_ParallelMapDataset")


def is_map(dataset: tf.data.Dataset) -> bool:
    """Whether a step makes exactly one element of each, and of that one alone. Local.

    Maps of TensorFlow 1 do not: they may end early.
    """
    name = type(dataset).__name__
    return name == "_DenseToRaggedDataset" or (
        name in _MAPS and bool(getattr(dataset, "_preserve_cardinality", False))
    )


def is_identity_map(dataset: tf.data.Dataset) -> bool:
    """Whether a step is a map that returns what it is given. Local."""
    return type(dataset).__name__ in _MAPS and is_identity(dataset._map_func)


def is_row_wise_map(dataset: tf.data.Dataset) -> bool:
    """Whether a step is a map of which is known that it treats each row of a batch alone. Local."""
    name = type(dataset).__name__
    return name in _MAPS and is_map(dataset) and is_row_wise(dataset._map_func)


def calls_in_order(dataset: tf.data.Dataset) -> bool:
    """Whether functions of a step are called for one element after the other. Local.

    Calls in parallel overtake each other, unless TensorFlow was told to be deterministic: it then
    calls functions with side effects in order.
    """
    calls = getattr(dataset, "_num_parallel_calls", None)
    return calls is None or int(calls) == 1 or config.is_op_determinism_enabled()


def needs_all(dataset: tf.data.Dataset, hides: frozenset[str]) -> str:
    """Why a map must run for all samples; empty if it need not. Local.

    What depends on the order of calls is not defined in the serial run either if they overtake each
    other.

    Args:
        dataset: The step.
        hides: What `find_hidden` found in its functions.
    """
    if "state" in hides:
        return "its function changes variables or the like from sample to sample"
    if "seeded random" in hides and calls_in_order(dataset):
        return "its function draws seeded random numbers for one sample after the other"
    if "python" in hides and calls_in_order(dataset):
        return "its function is Python code that is called for one sample after the other"
    return ""
