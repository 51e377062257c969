"""The states of the generators of random numbers that Python and numpy have, as plain values."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def generator_states() -> dict[str, Any]:
    """Return the states of `random` and `numpy.random`. Local."""
    return {"random": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def set_generator_states(states: dict[str, Any]) -> None:
    """Let `random` and `numpy.random` go on from a state. Local.

    Args:
        states: What `generator_states` has returned, or one of its entries.
    """
    if "random" in states:
        random.setstate(states["random"])
    if "numpy" in states:
        np.random.set_state(states["numpy"])
