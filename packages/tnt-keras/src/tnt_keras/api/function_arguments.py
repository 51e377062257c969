"""The arguments of a step function: tensors, constants, and this rank's part of a batch."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_data import fingerprint_of
from tnt_keras.api.dataset import part_of
from tnt_keras.calls.agree import require_same
from tnt_keras.step.batch import (
    Part,
    as_tensors,
    cut,
    even_sizes,
    has_rows,
    in_order_of_rows,
    num_rows,
    rows_at,
    spread_positions,
)
from tnt_keras.step.signature import key_of_nest


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
class Argument:
    """One argument of a call."""

    name: int | str  # position or keyword
    constants: tuple[Constant | None, ...]  # of its leaves, None for tensors
    is_constant: bool  # has no array or tensor; one constant for the whole


Layout = tuple[Argument, ...]
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
                layout.append(Argument(name, (Constant(value, is_for_graph),), True))
                continue
            constants = (None if _is_tensor(x) else Constant(x, is_for_graph) for x in leaves)
            layout.append(Argument(name, tuple(constants), False))
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
        f"`{name}` was called with different constants on different ranks",
        plain,
        "All ranks must call it in the same way, with the same batch or their parts of it.",
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


_COMPARED_ROWS = 8  # of each tensor: enough to notice other samples, and next to nothing to read


class GivenParts:
    """Finds the samples among what each call of a step function is given.

    They are what comes from `tnt.data.distribute`, and what has as many rows as the batch. All
    ranks have the rest, such as a seed or weights of classes. `name` is that of the function.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._of_any_batch: set[tuple[int, int]] = set()

    def of(self, tensors: Any) -> tuple[Part, int]:
        """Return this rank's part, and a number that must be equal on all ranks. Local.

        Tensors that are parts of different batches, or may be made of one, are a `ValueError`.
        """
        leaves = tf.nest.flatten(tensors)
        parts = [part_of(leaf) for leaf in leaves]
        known = {part for part in parts if part is not None}
        if len(known) > 1:
            raise ValueError(
                f"Some arguments of `{self._name}` are this rank's part of one batch of "
                "`tnt.data.distribute`, and others are parts of another batch. Pass parts of one "
                "batch."
            )
        of_all = {i: leaf for i, leaf in enumerate(leaves) if leaf is not None and parts[i] is None}
        sizes = {i: int(num_rows(leaf)) for i, leaf in of_all.items() if has_rows(leaf)}
        num_global = known.pop().num_global if known else _num_samples(list(sizes.values()))
        are_parts = frozenset(i for i, part in enumerate(parts) if part is not None)
        if are_parts:
            self._check_sizes(sizes, num_global)
        some = [_some_rows(leaf, sizes.get(i)) for i, leaf in of_all.items()]
        fingerprint = fingerprint_of((some, tf.constant(list(sizes.values()), tf.int64)))
        return cut(tensors, num_global, are_parts), int(fingerprint)

    def _check_sizes(self, sizes: dict[int, int], num_global: int) -> None:
        """Raise if a tensor beside parts of a batch may be made of this rank's part.

        Where ranks have different numbers of samples, what is made of parts has other sizes on
        some, which tells it.
        """
        of_ranks = set(even_sizes(num_global))
        for i, size in sizes.items():
            if size == num_global or (i, size) in self._of_any_batch:
                continue
            if {size} == of_ranks:
                raise ValueError(
                    f"`{self._name}` received a tensor of {size} rows next to a batch of "
                    f"{num_global} samples, of which `tnt.data.distribute` gives each rank "
                    f"{size}. Was the tensor computed from this rank's part? Pass the elements as "
                    f"they are, and change them in `{self._name}` or with `dataset.map`. If the "
                    "tensor is the same for every batch, let the step read it from a "
                    "`tf.Variable`."
                )
            self._of_any_batch.add((i, size))


def _num_samples(sizes: Sequence[int]) -> int:
    """Return the number of rows that most have, of several the largest; 0 if there are none."""
    counts = Counter(sizes)
    return max(counts, key=lambda size: (counts[size], size), default=0)


def _some_rows(leaf: Any, size: int | None) -> Any:
    if size is None:
        return leaf
    return rows_at(in_order_of_rows(leaf), spread_positions(size, _COMPARED_ROWS))
