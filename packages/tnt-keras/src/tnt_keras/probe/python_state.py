"""Give back what a step changes outside of variables: random generators and counters of Python."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import numpy as np


class PythonState:
    """The states of `random` and `numpy.random`, and numbers and strings that objects hold.

    They are those at construction. Lists, arrays and other objects are not known. Neither are truth
    values and None, by which Keras notes what it has built.

    Args:
        objects: A model and what it consists of.
    """

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self._python_state = random.getstate()
        self._numpy_state = np.random.get_state()
        self._attributes = [
            (vars(owner), name, value)
            for owner in {id(each): each for each in objects}.values()
            if hasattr(owner, "__dict__")
            for name, value in vars(owner).items()
            if type(value) in (int, float, str)
        ]

    def restore(self) -> None:
        """Give back all of it, as often as wanted. Local."""
        random.setstate(self._python_state)
        np.random.set_state(self._numpy_state)
        for attributes, name, value in self._attributes:
            attributes[name] = value
