"""What a step changes outside of variables: random generators, and numbers held in Python."""

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
        self._owners = {id(each): each for each in objects if hasattr(each, "__dict__")}
        self._attributes = {
            (key, name): value
            for key, owner in self._owners.items()
            for name, value in vars(owner).items()
            if isinstance(value, str) or _is_number(value)
        }

    def restore(self) -> None:
        """Give back all of it, as often as wanted. Local."""
        random.setstate(self._python_state)
        np.random.set_state(self._numpy_state)
        self.restore_attributes()

    def restore_attributes(self) -> None:
        """Give back what objects hold. Local."""
        for (key, name), value in self._attributes.items():
            vars(self._owners[key])[name] = value
        for key, name in self.changed_numbers():
            if hasattr(type(self._owners[key]), name):  # what the class holds is to be seen again
                del vars(self._owners[key])[name]

    def changed_numbers(self) -> dict[tuple[int, str], float]:
        """Return the numbers that are others now, by the id of their owner and their name. Local.

        A number that was not there is one of them.
        """
        return {
            (key, name): float(value)
            for key, owner in self._owners.items()
            for name, value in vars(owner).items()
            if _is_number(value) and self._attributes.get((key, name)) != value
        }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
