"""Let ranks draw other random numbers for their samples, and the same for everything else.

The states of seeds are the same on all ranks. What a step draws for its samples, such as a dropout
mask or the noise of a diffusion model, must differ between ranks; what it draws once, such as noise
on a gradient, must not, or the mean over ranks has a smaller variance than that of the serial run.
Numbers are drawn for samples if their first dimension

    - is not known when the graph is traced, or
    - is a multiple of the rank's number of samples, where that is known and not 1, or equal to it.

These get on rank r the seed or key plus r * STRIDE. What has no seed at all is left alone: the
operating system seeds it on each rank.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import replaced_random_operations

STRIDE = 0x4F1BBCDD
"""Odd and without pattern (2**31 divided by the golden ratio): multiples modulo 2**31 are far apart
and none is hit twice."""

_NUM_SEEDS = 2**31


@contextlib.contextmanager
def rank_draws(rank: int, num_rows: int | None) -> Iterator[None]:
    """Shift the seeds of what is drawn for samples inside a with-block, in this thread. Local.

    Args:
        rank: This rank.
        num_rows: Of this rank's part of the batch; None if it is not known in the graph.
    """

    def replace(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*args: Any, **kwargs: Any) -> Any:
            given = _signature(plain).bind(*args, **kwargs)
            if _are_for_samples(_shape_of(given.arguments), num_rows):
                _shift(given.arguments, rank * STRIDE)
            return plain(*given.args, **given.kwargs)

        return draw

    with replaced_random_operations(replace) if rank else contextlib.nullcontext():
        yield


def static_num_rows(rows: Any) -> int | None:
    """Return the number of rows of a batch if it is known in the graph. Pure.

    Args:
        rows: A structure of tensors.
    """
    shapes = [leaf.shape for leaf in tf.nest.flatten(rows) if tf.is_tensor(leaf)]
    return next((shape[0] for shape in shapes if shape.rank), None)


@functools.cache  # an eager step replaces all operations and calls few
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _shape_of(given: dict[str, Any]) -> Any:
    """Return the shape that is asked for, as a tensor or a sequence; None if there is none."""
    for name in ("logits", "value"):  # the first dimension of these is that of the numbers
        if name in given:
            return tf.shape(given[name])
    return given.get("shape")


def _are_for_samples(shape: Any, num_rows: int | None) -> bool:
    if shape is None:
        return False
    size = np.asarray(tf.get_static_value(tf.convert_to_tensor(shape)))
    if size.dtype == object:  # not known
        return True
    if size.ndim != 1 or not len(size) or not num_rows:
        return False
    return bool(size[0] == num_rows or (num_rows > 1 and size[0] and size[0] % num_rows == 0))


def _shift(given: dict[str, Any], shift: int) -> None:
    """Shift the seed or key among the arguments of an operation."""
    seed = given.get("seed")
    if "key" in given:
        given["key"] = given["key"] + tf.constant(shift, tf.uint64)
    elif seed is not None and not isinstance(seed, int):  # of a stateless operation
        seed = tf.convert_to_tensor(seed)
        given["seed"] = seed + tf.constant([shift % _NUM_SEEDS, 0], seed.dtype)
    elif seed or given.get("seed2"):
        given["seed2"] = (given.get("seed2", 0) + shift) % _NUM_SEEDS
