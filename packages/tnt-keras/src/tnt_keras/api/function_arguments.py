"""Sort the arguments of a step function: arrays and tensors, and everything else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import require_same
from tnt_keras.step.signature import key_of_nest
from tnt_keras.step.whole_batch import as_tensors


class Constant:
    """A value that a step keeps: other values make another step.

    A graph keeps what dictionaries, lists, tuples and sets hold when it is made: they are known by
    that, and copied, since the caller may change them. Other objects that cannot be hashed are
    known by their identity; in an eager step, which sees them as they are, these are too.
    """

    def __init__(self, value: Any, is_for_graph: bool) -> None:
        self.value = tf.nest.map_structure(_copied, value) if is_for_graph else value
        self.key = key_of_nest(value, _key_of_copy) if is_for_graph else _key_of(value)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same, also of one type: True is not 1 here."""
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        """Return a number that equal constants share."""
        return hash(self.key)


@dataclasses.dataclass(frozen=True)
class Place:
    """One argument of a call."""

    name: int | str  # position or keyword
    constants: tuple[Constant | None, ...]  # of its leaves, None for tensors
    is_constant: bool  # has no array or tensor; one constant for the whole


Layout = tuple[Place, ...]
"""All arguments in their order. Calls with one layout run the same step."""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a step function."""

    layout: Layout
    tensors: list[Any]  # of those with arrays or tensors; None in place of constants

    @property
    def constants(self) -> dict[str, Constant]:
        """What is no array or tensor, by position or keyword."""
        return {
            str(place.name) if place.is_constant else f"{place.name}[{i}]": constant
            for place in self.layout
            for i, constant in enumerate(place.constants)
            if constant is not None
        }

    @classmethod
    def of_call(
        cls, args: Sequence[Any], kwargs: Mapping[str, Any], is_for_graph: bool
    ) -> Arguments:
        """Sort the arguments of a call. Local.

        Arrays and tensors may change from call to call, also within tuples, lists and
        dictionaries. Everything else is a constant, such as numbers of Python.
        """
        layout, tensors = [], []
        named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for name, value in named:
            leaves = tf.nest.flatten(value)
            if not any(map(_is_tensor, leaves)):
                layout.append(Place(name, (Constant(value, is_for_graph),), True))
                continue
            constants = (None if _is_tensor(x) else Constant(x, is_for_graph) for x in leaves)
            layout.append(Place(name, tuple(constants), False))
            given = [leaf if _is_tensor(leaf) else None for leaf in leaves]
            tensors.append(as_tensors(tf.nest.pack_sequence_as(value, given)))
        return cls(tuple(layout), tensors)


def call_with(function: Callable[..., Any], layout: Layout, tensors: Sequence[Any]) -> Any:
    """Call a function with the arguments of a layout."""
    remaining = iter(tensors)
    args, kwargs = [], {}
    for place in layout:
        given = None if place.is_constant else next(remaining)
        leaves = zip(tf.nest.flatten(given), place.constants, strict=True)
        values = [constant.value if constant else leaf for leaf, constant in leaves]
        value = values[0] if place.is_constant else tf.nest.pack_sequence_as(given, values)
        if isinstance(place.name, str):
            kwargs[place.name] = value
        else:
            args.append(value)
    return function(*args, **kwargs)


def _is_tensor(leaf: Any) -> bool:
    return isinstance(leaf, (np.ndarray, np.generic)) or (
        tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)
    )


def check_same_constants(constants: Mapping[str, Constant], name: str) -> None:
    """Compare the numbers and texts among the constants of a call. Collective.

    Of other objects it cannot be told whether those of two processes are the same.
    """
    plain = [f"{key} = {each.value!r}" for key, each in constants.items() if _is_plain(each.value)]
    require_same(
        f"`{name}` was called with other constants on other ranks",
        plain,
        "All ranks must call it alike, with the same batch or their parts of it.",
    )


def _is_plain(value: Any) -> bool:
    leaves = tf.nest.flatten(value)
    return all(isinstance(leaf, (int, float, complex, str, bytes, type(None))) for leaf in leaves)


def _copied(leaf: Any) -> Any:
    return set(leaf) if type(leaf) is set else leaf  # which is no structure to TensorFlow


def _key_of(value: Any) -> tuple[type, Hashable]:
    """Return the type of a value, and the value or its identity."""
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


def _key_of_copy(value: Any) -> Hashable:
    return (type(value), frozenset(value)) if isinstance(value, set) else _key_of(value)
