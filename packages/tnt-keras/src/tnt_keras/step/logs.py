"""The values in what a step returns, at any depth of its structure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Path = tuple[str, ...]
"""Keys and positions that lead to a value."""


def map_logs(function: Callable[[Path, Any], Any], logs: Any, path: Path = ()) -> Any:
    """Return the logs with other values in the same places. Local.

    Args:
        function: Called with path and value of everything that is no dict, list or tuple.
        logs: What a step returned.
        path: Of the logs themselves.
    """
    if isinstance(logs, Mapping):
        return {key: map_logs(function, value, (*path, str(key))) for key, value in logs.items()}
    if isinstance(logs, (list, tuple)):
        values = [map_logs(function, value, (*path, str(i))) for i, value in enumerate(logs)]
        return type(logs)(*values) if hasattr(logs, "_fields") else type(logs)(values)
    return function(path, logs)


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable, which has another value later. Local.

    Args:
        value: Any value of the logs.
    """
    return isinstance(value, (keras.Variable, tf.Variable))


def is_of_this_rank(value: Any) -> bool:
    """Return whether a value may have been computed from the samples of this rank. Local.

    Numbers of Python and NumPy may be if the step runs eagerly; a graph has them as constants.

    Args:
        value: Any value of the logs.
    """
    if is_variable(value) or isinstance(value, bool):
        return False
    is_number = isinstance(value, (int, float, np.number, np.ndarray))
    return tf.is_tensor(value) or (is_number and tf.executing_eagerly())


def summand_of(value: Any) -> tf.Tensor:
    """Return what ranks add up for a value: in float32, or float64 where that would lose digits.

    Local.

    Args:
        value: A tensor or number.
    """
    tensor = tf.convert_to_tensor(value)
    is_exact_in_float32 = tensor.dtype in (tf.float32, tf.float16, tf.bfloat16, tf.bool)
    is_exact_in_float32 &= not isinstance(value, float)
    return tf.cast(tensor, tf.float32 if is_exact_in_float32 else tf.float64)


def like(value: Any, combined: tf.Tensor) -> Any:
    """Return a combined value with the Python type or dtype of this rank's value. Local.

    Args:
        value: This rank's.
        combined: What `summand_of` became.
    """
    if tf.is_tensor(value):
        return tf.cast(combined, value.dtype)
    number = combined.numpy()
    if isinstance(value, (np.number, np.ndarray)):
        return number.astype(value.dtype)
    return int(number) if isinstance(value, int) and number == int(number) else float(number)
