"""Arguments of a step function that are neither samples nor scalars: a step keeps their values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.replicas import require_same


class Constant:
    """A value that a step keeps: other values make another step.

    A graph keeps what dictionaries, lists, tuples and sets hold when it is made: they are known by
    that, and copied, since the caller may change them. Other objects that cannot be hashed are
    known by their identity, and in a step that runs eagerly, which sees and may change them as they
    are, these are too.

    Args:
        value: Any object.
        is_for_graph: Whether the step is a graph.

    Attributes:
        value: The same, or a copy of containers.
        key: What equal constants share.
    """

    def __init__(self, value: Any, is_for_graph: bool) -> None:
        self.value = tf.nest.map_structure(_copied, value) if is_for_graph else value
        self.key = _key_of_contents(value) if is_for_graph else _key_of(value)

    def __eq__(self, other: object) -> bool:
        """Tell whether both are the same, also of one type: True is not 1 here."""
        return isinstance(other, Constant) and self.key == other.key

    def __hash__(self) -> int:
        """Return a number that equal constants share."""
        return hash(self.key)


def check_same_constants(constants: Mapping[int | str, Constant], name: str) -> None:
    """Compare the numbers and texts among the constants of a call. Collective.

    Of other objects it cannot be told whether those of two processes are the same.

    Raises:
        DifferentInputError: On all ranks, if they differ; names the first argument that does.
    """
    plain = [f"{key} = {each.value!r}" for key, each in constants.items() if _is_plain(each.value)]
    require_same(
        "constants of a step",
        plain,
        f"`{name}` was called with "
        "{masters} on rank {master} and with {other} on rank {rank}. All ranks must call it alike, "
        "with the same batch or their parts of it.",
        missing="fewer constants",
    )


def _is_plain(value: Any) -> bool:
    leaves = tf.nest.flatten(value)
    return all(isinstance(leaf, (int, float, complex, str, bytes, type(None))) for leaf in leaves)


def _copied(leaf: Any) -> Any:
    return set(leaf) if type(leaf) is set else leaf  # which is no structure to TensorFlow


def _key_of_contents(value: Any) -> tuple[type, Hashable]:
    if isinstance(value, Mapping):
        return type(value), tuple((key, _key_of_contents(each)) for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_key_of_contents, value))
    if isinstance(value, set):
        return type(value), frozenset(value)
    return _key_of(value)


def _key_of(value: Any) -> tuple[type, Hashable]:
    """Return the type of a value, and the value or its identity."""
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value
