"""Collectives on numbers, arrays, tensors and nests, with the names of the original Tarantella.

Each object is made of a sample of what is sent, and may then be used any number of times.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import tensorflow as tf

import tnt_comm
from tnt_keras.calls.current_call import user_line
from tnt_keras.legacy.nested_values import (
    Array,
    Leaf,
    as_array,
    flattened,
    halves_of,
    joined_halves,
    labels_of,
    leaf_of,
)
from tnt_keras.process.rank import get_rank


class _TensorCollective:
    """What the three have in common: one operation for each value of a nest, in its order."""

    _compares_shapes = True

    def __init__(self, inputs: Any, group: tnt_comm.Group | None = None) -> None:
        self._group = tnt_comm.Group() if group is None else group
        self._leaves = [leaf_of(value) for value in flattened(inputs)]
        self._labels = labels_of(inputs, self._leaves, type(self).__name__)
        self._structure = tf.nest.map_structure(lambda _: 0, inputs)
        self._tickets: list[tnt_comm.Ticket[Any]] | None = None

    def start(self, inputs: Any) -> None:
        """Begin, without waiting for other members; the values are copied. Collective.

        Args:
            inputs: Like the sample.

        Raises:
            ValueError: If `inputs` differs from the sample.
            RuntimeError: If it was begun before, and not waited for.
        """
        if self._tickets is not None:
            raise RuntimeError(
                f"Rank {get_rank()}: `start` of a {type(self).__name__} was called again: call "
                "`wait_for_completion` first, or use two objects."
            )
        arrays, caller = self._arrays_of(inputs), user_line()
        if arrays:
            self._tickets = [
                self._start_one(array, label, caller)
                for array, label in zip(arrays, self._labels, strict=True)
            ]
        else:  # others may have values, and would wait for them
            self._tickets = [self._group.start_barrier(label=self._labels[0], caller=caller)]

    def wait_for_completion(self, inputs: Any = None) -> Any:
        """Wait until all members have begun, and return the result. Collective.

        Args:
            inputs: Not needed; scripts of the original give the values once more.

        Returns:
            As the class says.

        Raises:
            RuntimeError: If `start` was not called.
            tnt_comm.MismatchError: If members have given nests of different structures, or values
                of different shapes or dtypes.
            tnt_comm.CommError: If a member is lost, late, or in another call.
        """
        if self._tickets is None:
            raise RuntimeError(
                f"Rank {get_rank()}: `wait_for_completion` of a {type(self).__name__} was called "
                "before `start`: call that first."
            )
        tickets, self._tickets = self._tickets, None
        received = [ticket.wait() for ticket in tickets]
        results = [
            self._result_of(leaf, each)
            for leaf, each in zip(self._leaves, received, strict=False)  # no leaf of an empty nest
        ]
        return tf.nest.pack_sequence_as(self._structure, results)

    def _start_one(self, array: Array, label: str, caller: str) -> tnt_comm.Ticket[Any]:
        raise NotImplementedError

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return leaf.restore(received)

    def _arrays_of(self, inputs: Any) -> list[Array]:
        try:
            tf.nest.assert_same_structure(self._structure, inputs)
        except (TypeError, ValueError):
            raise self._error_for(_described(inputs), _described(self._structure)) from None
        values = tf.nest.flatten(inputs)
        for value, leaf in zip(values, self._leaves, strict=True):
            given = leaf_of(value)
            if not self._is_like(given, leaf):
                raise self._error_for(str(given), str(leaf))
        return [as_array(value) for value in values]

    def _is_like(self, given: Leaf, sample: Leaf) -> bool:
        same_shape = given.shape == sample.shape or not self._compares_shapes
        return (given.kind, given.dtype) == (sample.kind, sample.dtype) and same_shape

    def _error_for(self, given: str, sample: str) -> ValueError:
        return ValueError(
            f"Rank {get_rank()}: `inputs` of a {type(self).__name__} must be like the sample that "
            f"it was made of. Received: {given} instead of {sample}."
        )


class TensorAllreducer(_TensorCollective):
    """Sum numbers, arrays, tensors and nests of them over ranks.

        total = tnt.TensorAllreducer(0.0).allreduce(own)

    The result has the kind, dtype and shape of the inputs. Of bools it is whether any is true. An
    `int` is exact, however large it becomes; integers of NumPy and TensorFlow wrap around as those
    do.

    Args:
        inputs: A sample: a number, a NumPy scalar or array, an eager tensor, or lists, tuples and
            dicts of these; of the same structure, dtypes and shapes on all members.
        group: Whose values are summed; all ranks by default.

    Raises:
        TypeError: If a value is of another kind, such as a `str`, None or a variable, or keys of a
            dict cannot be sorted.
        ValueError: If a dtype cannot be sent.
    """

    def allreduce(self, inputs: Any) -> Any:
        """Begin and wait. Collective.

        Args:
            inputs: Like the sample.

        Returns:
            The sums, as the class says. Errors are those of `start` and `wait_for_completion`.
        """
        self.start(inputs)
        return self.wait_for_completion()

    def _arrays_of(self, inputs: Any) -> list[Array]:
        arrays = super()._arrays_of(inputs)
        return [
            halves_of(array) if leaf.kind is int else array
            for leaf, array in zip(self._leaves, arrays, strict=True)
        ]

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return joined_halves(received) if leaf.kind is int else super()._result_of(leaf, received)

    def _start_one(self, array: Array, label: str, caller: str) -> tnt_comm.Ticket[Any]:
        op = "or" if array.dtype == bool else "sum"
        return self._group.start_allreduce(array, op, label=label, caller=caller)


class TensorBroadcaster(_TensorCollective):
    """Give all ranks the numbers, arrays, tensors or nests of them that one rank has.

        settings = tnt.TensorBroadcaster(settings).broadcast(settings)

    The result has the kind, dtype and shape of the sample. Members but the root need no inputs.

    Args:
        inputs: A sample, as for `TensorAllreducer`.
        root_rank: Whose values are sent, as rank inside the group.
        group: Who takes part; all ranks by default.

    Raises:
        TypeError: As for `TensorAllreducer`, or if `root_rank` is no integer.
        ValueError: As for `TensorAllreducer`, or if the group has no such root.
    """

    def __init__(
        self, inputs: Any, root_rank: int = 0, group: tnt_comm.Group | None = None
    ) -> None:
        super().__init__(inputs, group)
        root_rank = _as_root(root_rank)
        if not 0 <= root_rank < self._group.size:
            raise ValueError(
                f"Rank {get_rank()}: `root_rank` must be a rank inside of the group, in "
                f"[0, {self._group.size}). Received: root_rank={root_rank}."
            )
        self._root = root_rank

    def start(self, inputs: Any = None) -> None:
        """Begin, without waiting for other members. Collective.

        Args:
            inputs: Like the sample; what other members than the root give is not looked at.

        Raises:
            ValueError: If `inputs` of the root differs from the sample.
            RuntimeError: If it was begun before, and not waited for.
        """
        super().start(inputs)

    def broadcast(self, inputs: Any = None) -> Any:
        """Begin and wait. Collective.

        Args:
            inputs: As for `start`.

        Returns:
            The values of the root. Errors are those of `start` and `wait_for_completion`.
        """
        self.start(inputs)
        return self.wait_for_completion()

    def _arrays_of(self, inputs: Any) -> list[Array]:
        if self._group.rank == self._root:
            return super()._arrays_of(inputs)
        return [np.zeros(leaf.shape, leaf.dtype) for leaf in self._leaves]

    def _start_one(self, array: Array, label: str, caller: str) -> tnt_comm.Ticket[Any]:
        return self._group.start_broadcast(array, self._root, label=label, caller=caller)


class TensorAllgatherer(_TensorCollective):
    """Give all ranks the numbers, arrays or tensors of all, one after the other.

        lengths = tnt.TensorAllgatherer(0).allgather(own_length)

    The result of a number is an array with one value for each member, in rank order; that of an
    array or tensor is a flat one of all elements. Nests are gathered value by value.

    Args:
        inputs: A sample, as for `TensorAllreducer`; numbers of elements may differ between members.
        group: Whose values are gathered; all ranks by default.

    Raises:
        TypeError: As for `TensorAllreducer`.
        ValueError: As for `TensorAllreducer`.
    """

    _compares_shapes = False

    def allgather(self, inputs: Any) -> Any:
        """Begin and wait. Collective.

        Args:
            inputs: Like the sample, of any sizes.

        Returns:
            The values of all members. Errors are those of `start` and `wait_for_completion`.
        """
        self.start(inputs)
        return self.wait_for_completion()

    def _start_one(self, array: Array, label: str, caller: str) -> tnt_comm.Ticket[Any]:
        return self._group.start_allgather(array.reshape(-1), label=label, caller=caller)

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return leaf.restore(np.concatenate(received))


def _as_root(root_rank: int) -> int:
    """Return `root_rank` as an integer of Python; NumPy's are taken, texts and fractions not."""
    try:
        return operator.index(root_rank)
    except TypeError:
        raise TypeError(
            f"Rank {get_rank()}: `root_rank` must be an int. Received: {root_rank!r} "
            f"({type(root_rank).__name__})."
        ) from None


def _described(nest: Any) -> str:
    """Describe the structure of a nest for messages: classes instead of values."""
    if isinstance(nest, dict):
        return "{" + ", ".join(f"{key!r}: {_described(value)}" for key, value in nest.items()) + "}"
    if isinstance(nest, (list, tuple)):
        inside = ", ".join(map(_described, nest))
        return f"[{inside}]" if isinstance(nest, list) else f"({inside})"
    return "value"
