"""The random generators that Python code draws from, and how all ranks draw alike."""

from __future__ import annotations

import random
import secrets
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


def use_generators_of_master(*, with_seed: bool = False) -> dict[str, Any]:
    """Let `random` and `numpy.random` go on from the states of the master rank. Collective.

    Return what `set_generator_states` takes to go back: the former states if they were others; the
    master goes on, which may be drawing in another thread. `with_seed`: give TensorFlow a global
    seed, if it has none.
    """
    own = generator_states()
    masters, seed = of_master("random generators", (own, secrets.randbits(31)))
    if with_seed and tf.compat.v1.get_seed(None) == (None, None):
        tf.random.set_seed(seed)
    if all(map(np.array_equal, tf.nest.flatten(own), tf.nest.flatten(masters))):
        return {}
    set_generator_states(masters)
    return own
