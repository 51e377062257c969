"""Finds the Python code behind `from_generator`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


def find_generator(step: tf.data.Dataset) -> Callable[..., Any] | None:
    """The user's function behind a dataset that `from_generator` made; None if not found. Local.

    Args:
        step: The `flat_map` that such a dataset consists of.
    """
    for outer in _held_by(step._map_func._func):
        for state in _held_by(outer):
            generator: Callable[..., Any] | None = getattr(state, "_generator", None)
            if callable(generator):
                return generator
    return None


def _held_by(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not yet filled
            continue
