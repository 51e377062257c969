"""The generators from which Python code draws: all ranks draw what the master rank draws."""

from __future__ import annotations

import contextlib
import pickle
import random
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.collectives.messages import allgather
from tnt_keras.process.rank import MASTER_RANK, is_master_rank


def use_generators_of_master() -> None:
    """Set the generators that Python code draws from to the states of the master rank. Collective.

    These are those of `random` and `numpy.random`, and the global seed of TensorFlow, if it has
    none: each rank draws the same then.
    """
    states, seed = _of_master()
    _use(states)
    if tf.compat.v1.get_seed(None) == (None, None):
        tf.random.set_seed(seed)


@contextlib.contextmanager
def generators_of_master() -> Iterator[None]:
    """Let code draw from `random` and `numpy.random` what it draws on the master rank. Collective.

    A rank whose generators were in other states has these again afterwards.
    """
    own, (of_master, _) = _states(), _of_master()
    _use(of_master)
    yield
    if not _are_equal(own, of_master):
        _use(own)


def _states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state()


def _use(states: tuple[Any, Any]) -> None:
    of_python, of_numpy = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)


def _are_equal(first: tuple[Any, Any], second: tuple[Any, Any]) -> bool:
    of_numpy = zip(first[1], second[1], strict=True)
    return first[0] == second[0] and all(np.array_equal(a, b) for a, b in of_numpy)


def _of_master() -> Any:
    """Return the master rank's states, and a seed that it has drawn."""
    own = pickle.dumps((_states(), secrets.randbits(31))) if is_master_rank() else b""
    return pickle.loads(allgather("random generators", own)[MASTER_RANK])
