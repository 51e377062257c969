"""The generators from which Python code draws: all ranks draw what the master rank draws."""

from __future__ import annotations

import contextlib
import random
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import of_master


def generator_states() -> dict[str, Any]:
    """Return the states of `random` and `numpy.random`, as plain values. Local."""
    return {"random": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def set_generator_states(states: dict[str, Any]) -> None:
    """Let `random` and `numpy.random` go on from `generator_states()` or a part. Local."""
    if "random" in states:
        random.setstate(states["random"])
    if "numpy" in states:
        np.random.set_state(states["numpy"])


def use_generators_of_master() -> None:
    """Set the generators that Python code draws from to the states of the master rank. Collective.

    These are `random` and `numpy.random`, and TensorFlow's global seed, if there is none.
    """
    states, seed = _of_master_rank()
    set_generator_states(states)
    if tf.compat.v1.get_seed(None) == (None, None):
        tf.random.set_seed(seed)


@contextlib.contextmanager
def generators_of_master() -> Iterator[None]:
    """Let code draw what the master draws; a rank in other states has these again. Collective."""
    own, (masters, _) = generator_states(), _of_master_rank()
    set_generator_states(masters)
    try:
        yield
    finally:
        if not all(map(np.array_equal, tf.nest.flatten(own), tf.nest.flatten(masters))):
            set_generator_states(own)


def _of_master_rank() -> Any:
    """Return the master rank's states, and a seed that it has drawn."""
    return of_master("random generators", (generator_states(), secrets.randbits(31)))
