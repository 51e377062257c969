"""Run examples serially and on all ranks, and compare what they show."""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from serial_comparison import Result, Values, compare, failure, on_all_ranks

import tnt_keras

from .registry import EXAMPLES, Example

BOUND = 8 * 10 * 16 * 2.0**-24
"""Largest difference of a value, relative to the largest of its array, that is rounding.

Eight updates, each of which is at most 10 times as large as the gradient (Adam with the learning
rate 0.01 and epsilon 0.001), which is a sum in another order: 16 roundings by 2**-24 of the sum
that do not cancel.
"""


def _mean(rows: Any, weights: Any = None) -> Any:
    if weights is None:
        return tf.reduce_mean(rows, axis=0)
    return tf.reduce_sum(rows * weights, axis=0) / tf.reduce_sum(weights)


SERIAL = SimpleNamespace(
    Model=lambda model: model,
    function=tf.function,
    data=SimpleNamespace(distribute=lambda dataset: dataset),
    gather_batch=lambda rows: rows,
    batch_sum=functools.partial(tf.reduce_sum, axis=0),
    batch_mean=_mean,
)
"""Stands for `tarantella` in a serial run: plain Keras and TensorFlow."""

DISTRIBUTED = SimpleNamespace(
    Model=functools.partial(tnt_keras.Model),
    function=functools.partial(tnt_keras.function),
    data=tnt_keras.data,
    gather_batch=tnt_keras.gather_batch,
    batch_sum=tnt_keras.batch_sum,
    batch_mean=tnt_keras.batch_mean,
)
"""Stands for `tarantella` on all ranks, with the proof that users have, too."""


def train_and_compare(names: Sequence[str], rows_are_alike: bool = True) -> list[tuple[int, Any]]:
    """Run examples on all ranks, and compare each on one rank with its serial run. Collective.

    Args:
        names: Of the examples.
        rows_are_alike: Draw random numbers once for all samples of a batch, so that the results
            can be compared with serial ones. Otherwise those of ranks are compared with each other.

    Returns:
        For each example a checksum of the results, and a `Result` on the rank that has compared it.
    """

    def outcome(example: Example, distributed: bool) -> Values | Result:
        keras.backend.clear_session()
        gc.collect()
        keras.utils.set_random_seed(7)
        try:
            with draws_for_all_rows() if rows_are_alike else contextlib.nullcontext():
                return example.run(DISTRIBUTED if distributed else SERIAL)
        except Exception as error:
            return failure(error, distributed)

    def judge(example: Example, actual: Any, expected: Any) -> Result:
        if expected is not None or isinstance(actual, Result):
            return compare(actual, expected, BOUND)
        return Result("exact" if all(map(_is_finite, actual.values())) else "DIFFERENT")

    def is_comparable(example: Example) -> bool:
        return rows_are_alike and not example.draws

    with common_folder():
        return on_all_ranks([EXAMPLES[name] for name in names], outcome, judge, is_comparable)


@contextlib.contextmanager
def common_folder() -> Iterator[None]:
    """Work in a new folder of all ranks, as the jobs of users do, in a with-block. Collective."""
    before = os.getcwd()
    with (
        tempfile.TemporaryDirectory()
        if tnt_keras.is_master_rank()
        else contextlib.nullcontext() as folder
    ):
        os.chdir(tnt_keras.broadcast_object(folder))
        try:
            yield
        finally:
            os.chdir(before)


@contextlib.contextmanager
def draws_for_all_rows() -> Iterator[None]:
    """Let `keras.random` and dropout draw one row in a with-block, and use it for all samples."""

    def of_one_row(draw: Callable[..., Any]) -> Callable[..., Any]:
        def draw_once(shape: Any, *args: Any, **kwargs: Any) -> Any:
            row = draw((1, *tuple(shape)[1:]), *args, **kwargs)
            return tf.broadcast_to(row, tf.stack([*shape]))

        return draw_once

    drop = keras.layers.Dropout.call

    def drop_alike(layer: Any, inputs: Any, training: bool = False) -> Any:
        layer.noise_shape = (1, *inputs.shape[1:])
        return drop(layer, inputs, training=training)

    with contextlib.ExitStack() as stack:
        for name in ("normal", "uniform", "randint"):
            drawn_once = of_one_row(getattr(keras.random, name))
            stack.enter_context(mock.patch.object(keras.random, name, drawn_once))
        stack.enter_context(mock.patch.object(keras.layers.Dropout, "call", drop_alike))
        yield


def _is_finite(value: np.ndarray) -> bool:
    return value.dtype.kind not in "fc" or bool(np.all(np.isfinite(value)))
