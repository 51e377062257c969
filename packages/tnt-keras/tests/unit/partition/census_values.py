"""Inputs of the census, all with an unknown number of rows, and arguments by their names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from census_tracing import Example

SIDE = 4


def rows(*shape: int | None, dtype: tf.DType = tf.float32) -> tf.TensorSpec:
    return tf.TensorSpec((None, *shape), dtype)


def whole(*shape: int, dtype: tf.DType = tf.float32) -> tf.TensorSpec:
    """What has no rows: a weight, a table, a number."""
    return tf.TensorSpec(shape, dtype)


NUMBERS = rows()
VECTORS = rows(SIDE)
MATRICES = rows(SIDE, SIDE)
IMAGES = rows(8, 8, 3)
VOLUMES = rows(SIDE, SIDE, SIDE, 2)
LABELS = rows(dtype=tf.int32)
INTS = rows(SIDE, dtype=tf.int32)
BOOLS = rows(SIDE, dtype=tf.bool)
STRINGS = rows(dtype=tf.string)
COMPLEX = rows(SIDE, SIDE, dtype=tf.complex64)
BYTE_IMAGES = rows(8, 8, 3, dtype=tf.uint8)
SIGNALS = rows(32)
VECTOR = whole(SIDE)
MATRIX = whole(SIDE, SIDE)
RAGGED = tf.RaggedTensorSpec((None, None), tf.float32, ragged_rank=1)
RAGGED_STRINGS = tf.RaggedTensorSpec((None, None), tf.string, ragged_rank=1)
SPARSE = tf.SparseTensorSpec((None, SIDE), tf.float32)

FLOATS = (MATRICES, VECTORS, IMAGES, NUMBERS, VOLUMES)
INTEGERS = (INTS, LABELS)
OTHERS = (BOOLS, COMPLEX, STRINGS, BYTE_IMAGES)
COMPOSITES = (RAGGED, SPARSE, RAGGED_STRINGS)

# What a required argument of such a name is given, in all functions and classes.
NAMED: dict[str, Any] = {
    "N": SIDE,
    "activation": "relu",
    "alpha": 0.5,
    "axes": (1,),
    "axis": 1,
    "axis1": 0,
    "axis2": 1,
    "beta": 0.5,
    "block_size": 2,
    "decay_rate": 0.9,
    "decay_steps": 10,
    "depth": 5,
    "dtype": "float16",
    "factor": 0.2,
    "fft_length": 8,
    "fill_value": 1.0,
    "filters": 2,
    "first_decay_steps": 10,
    "frame_length": 8,
    "frame_step": SIDE,
    "height": 5,
    "height_factor": 0.2,
    "initial_learning_rate": 0.1,
    "input_dim": 10,
    "input_encoding": "UTF-8",
    "k": 2,
    "kernel_size": 3,
    "ksize": 2,
    "max_val": 1.0,
    "message": "",
    "n": 2,
    "ngram_width": 2,
    "num": SIDE,
    "num_bins": 5,
    "num_buckets": 5,
    "num_classes": SIDE,
    "num_samples": 3,
    "num_segments": 5,
    "output_dim": 3,
    "output_encoding": "UTF-8",
    "output_size": 2,
    "padding": "VALID",
    "paddings": ((0, 0), (1, 1)),
    "pattern": "a+",
    "pool_size": 2,
    "precision": 0.5,
    "q": 0.5,
    "rate": 0.3,
    "recall": 0.5,
    "repeats": 2,
    "rewrite": "b",
    "scale": 0.5,
    "seed": (1, 2),
    "segment_ids": LABELS,
    "sensitivity": 0.5,
    "sequence_length": SIDE,
    "sequence_stride": 2,
    "shape": (2, SIDE),
    "shift": 1,
    "size": (5, 6),
    "specificity": 0.5,
    "stddev": 0.1,
    "strides": 1,
    "target_height": 6,
    "target_shape": (-1,),
    "target_width": 6,
    "threshold": 0.5,
    "units": 3,
    "width": 6,
    "width_factor": 0.2,
    "window_length": 8,
}


def required(function: Callable[..., Any]) -> list[str]:
    """Names of the arguments that have no default."""
    return [
        name
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        and name != "self"
    ]


def named_arguments(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: NAMED[name] for name in required(function) if name in NAMED}


def guesses(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Iterator[Example]:
    """Calls with the same input for each argument whose name says nothing."""
    named = named_arguments(function)
    unnamed = [name for name in required(function) if name not in named]
    for value in inputs:
        yield Example((), dict.fromkeys(unnamed, value) | named)
