"""Run examples serially and on all ranks, and compare what they show."""

from __future__ import annotations

import contextlib
import gc
import os
import tempfile
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import keras
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


SERIAL = SimpleNamespace(
    Model=lambda model: model,
    function=tf.function,
    data=SimpleNamespace(distribute=lambda dataset: dataset),
)
"""Stands for `tarantella` in a serial run: plain Keras and TensorFlow."""

DISTRIBUTED = SimpleNamespace(
    Model=tnt_keras.Model, function=tnt_keras.function, data=tnt_keras.data
)
"""Stands for `tarantella` on all ranks."""


def train_and_compare(names: Sequence[str]) -> list[tuple[int, Any]]:
    """Run examples on all ranks, and compare each on one rank with its serial run. Collective.

    Args:
        names: Of the examples.

    Returns:
        For each example a checksum of the results, and a `Result` on the rank that has compared it.
    """

    def outcome(example: Example, distributed: bool) -> Values | Result:
        keras.backend.clear_session()
        gc.collect()
        keras.utils.set_random_seed(7)
        try:
            return example.run(DISTRIBUTED if distributed else SERIAL)
        except Exception as error:
            return failure(error, distributed)

    def judge(example: Example, actual: Any, expected: Any) -> Result:
        return compare(actual, expected, BOUND)

    with common_folder():
        return on_all_ranks([EXAMPLES[name] for name in names], outcome, judge)


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
