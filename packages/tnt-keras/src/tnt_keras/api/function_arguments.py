"""Sort the arguments of a step function: samples, scalars that change, and everything else."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.calls.replicas import require_same
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


class Sort(enum.Enum):
    """What an argument is for a step."""

    SAMPLES = "samples"
    SCALAR = "scalar"
    CONSTANT = "constant"


@dataclasses.dataclass(frozen=True)
class Place:
    """One argument of a call."""

    name: int | str  # position or keyword
    sort: Sort
    constant: Constant | None = None


Layout = tuple[Place, ...]
"""The sorts of all arguments in their order. Calls with one layout run the same step."""


@dataclasses.dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a step function."""

    layout: Layout
    samples: tuple[Any, ...]  # structures of tensors of shape `(rows, ...)`
    scalars: tuple[tf.Tensor, ...]  # of shape `()`

    @property
    def constants(self) -> dict[int | str, Constant]:
        """Those that are constants, by position or keyword."""
        return {place.name: place.constant for place in self.layout if place.constant is not None}

    @classmethod
    def of_call(
        cls, args: Sequence[Any], kwargs: Mapping[str, Any], is_for_graph: bool
    ) -> Arguments:
        """Sort the arguments of a call. Local.

        Arrays and tensors with a dimension are samples, also within tuples, lists and dictionaries.
        Those without are scalars, which may change from call to call. Everything else is a
        constant.
        """
        layout, samples, scalars = [], [], []
        named: list[tuple[int | str, Any]] = [*enumerate(args), *kwargs.items()]
        for name, value in named:
            sort = _sort_of(name, value)
            is_constant = sort is Sort.CONSTANT
            layout.append(Place(name, sort, Constant(value, is_for_graph) if is_constant else None))
            if sort is Sort.SAMPLES:
                samples.append(as_tensors(value))
            elif sort is Sort.SCALAR:
                scalars.append(tf.convert_to_tensor(value))
        return cls(tuple(layout), tuple(samples), tuple(scalars))


def call_with(
    function: Callable[..., Any],
    layout: Layout,
    samples: Sequence[Any],
    scalars: Sequence[tf.Tensor],
) -> Any:
    """Call a function with the arguments of a layout."""
    remaining = {Sort.SAMPLES: iter(samples), Sort.SCALAR: iter(scalars)}
    args, kwargs = [], {}
    for place in layout:
        if place.constant is not None:
            value = place.constant.value
        else:
            value = next(remaining[place.sort])
        if isinstance(place.name, str):
            kwargs[place.name] = value
        else:
            args.append(value)
    return function(*args, **kwargs)


def _sort_of(name: int | str, value: Any) -> Sort:
    dimensions = [_num_dimensions(leaf) for leaf in tf.nest.flatten(value)]
    if all(number is None for number in dimensions):
        return Sort.CONSTANT
    if dimensions == [0] and not isinstance(value, (dict, list, tuple)):
        return Sort.SCALAR
    if all(dimensions):
        return Sort.SAMPLES
    raise TypeError(
        f"Argument {name!r} of a step function holds samples and other things, so that it is not "
        "known what ranks share: give samples, scalars and everything else as arguments of their "
        "own."
    )


def _num_dimensions(leaf: Any) -> int | None:
    """Return the number of dimensions of an array or tensor, None of everything else."""
    if isinstance(leaf, (np.ndarray, np.generic)) or (
        tf.is_tensor(leaf) and not isinstance(leaf, tf.Variable)
    ):
        return len(leaf.shape)
    return None


def check_same_constants(constants: Mapping[int | str, Constant], name: str) -> None:
    """Compare the numbers and texts among the constants of a call. Collective.

    Of other objects it cannot be told whether those of two processes are the same.
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


def _key_of(value: Any) -> tuple[type, Hashable]:
    """Return the type of a value, and the value or its identity."""
    try:
        hash(value)
    except TypeError:
        return type(value), id(value)
    return type(value), value


def _key_of_copy(value: Any) -> Hashable:
    return (type(value), frozenset(value)) if isinstance(value, set) else _key_of(value)
