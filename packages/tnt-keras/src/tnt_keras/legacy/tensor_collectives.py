"""Collectives on numbers, arrays, tensors and nests, with the names of the original Tarantella.

Each object is made of a sample of what is sent, and may then be used any number of times.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tnt_comm
import tnt_comm.arrays
from tnt_keras.calls.current_call import user_line
from tnt_keras.process.rank import get_rank

Array = np.ndarray[Any, Any]


class _TensorCollective:
    """What the three have in common: one operation for each value of a nest, in its order."""

    _compares_shapes = True

    def __init__(self, inputs: Any, group: tnt_comm.Group | None = None) -> None:
        self._group = tnt_comm.Group() if group is None else group
        self._leaves = [leaf_of(value) for value in _flattened(inputs)]
        self._labels = self._labels_of(inputs)
        self._structure = tf.nest.map_structure(lambda _: _VALUE, inputs)
        self._tickets: list[tnt_comm.Ticket[Any]] | None = None

    def start(self, inputs: Any = None) -> None:
        """Begin, without waiting for other members; the values are copied. Collective.

        Args:
            inputs: Like the sample; in a broadcast, only those of the root have an effect.

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
                self._start_one(leaf, array, label=label, caller=caller)
                for leaf, array, label in zip(self._leaves, arrays, self._labels, strict=True)
            ]
        else:  # others may have values, and would wait for them
            self._tickets = [self._group.start_barrier(label=self._labels[0], caller=caller)]

    def wait_for_completion(self, inputs: Any = None) -> Any:
        """Wait until all members have begun, and return the result. Collective.

        Args:
            inputs: Not needed; scripts of the original pass the values once more.

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

    def _start_one(self, leaf: Leaf, array: Array, **labels: Any) -> tnt_comm.Ticket[Any]:
        raise NotImplementedError

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return leaf.restore(received)

    def _arrays_of(self, inputs: Any) -> list[Array]:
        values = _flattened(inputs)
        try:
            tf.nest.assert_same_structure(self._structure, inputs)
        except (TypeError, ValueError):
            given = tf.nest.map_structure(lambda _: _VALUE, inputs)
            texts = (str(nest).replace(",)", ")") for nest in (given, self._structure))
            raise self._error_for(*texts) from None
        for value, leaf in zip(values, self._leaves, strict=True):
            given = leaf_of(value)
            if given[:2] != leaf[:2] or (self._compares_shapes and given.shape != leaf.shape):
                raise self._error_for(str(given), str(leaf))
        return [as_array(value) for value in values]

    def _error_for(self, given: str, sample: str) -> ValueError:
        return ValueError(
            f"Rank {get_rank()}: `inputs` of a {type(self).__name__} must be like the sample that "
            f"it was made of. Received: {given} instead of {sample}."
        )

    def _labels_of(self, nest: Any) -> list[str]:
        """Return a label for each value of a nest, or one for an empty nest.

        Labels differ where structures do, so that ranks notice it in the first messages that do not
        fit: "TensorAllreducer: scalar 1 of 2 at ['loss']".
        """
        name, num_leaves = type(self).__name__, len(self._leaves)
        if not num_leaves:
            return [f"{name}: no values"]
        return [
            f"{name}: {'array' if leaf.shape else 'scalar'} {number} of {num_leaves}"
            + (f" at {path}" if path else "")
            for number, (leaf, path) in enumerate(zip(self._leaves, _paths(nest), strict=True), 1)
        ]


class TensorAllreducer(_TensorCollective):
    """Sum numbers, arrays, tensors and nests of them over ranks.

        total = tnt.TensorAllreducer(0.0).allreduce(own)

    The result has the kind, dtype and shape of the inputs. The sum of bools is whether any is true.
    An `int` is exact, however large it becomes; integers of NumPy and TensorFlow wrap around as
    usual.

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

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return joined_halves(received) if leaf.kind is int else super()._result_of(leaf, received)

    def _start_one(self, leaf: Leaf, array: Array, **labels: Any) -> tnt_comm.Ticket[Any]:
        sent = halves_of(array) if leaf.kind is int else array
        op = "or" if array.dtype == bool else "sum"
        return self._group.start_allreduce(sent, op, **labels)


class TensorBroadcaster(_TensorCollective):
    """Give all ranks the numbers, arrays, tensors or nests of them that one rank has.

        settings = tnt.TensorBroadcaster(settings).broadcast(settings)

    The result has the kind, dtype and shape of the sample. Only the root needs inputs.

    Args:
        inputs: A sample, as for `TensorAllreducer`.
        root_rank: Whose values are sent, as rank inside the group.
        group: Who takes part; all ranks by default.

    Raises:
        TypeError: As for `TensorAllreducer`, or if `root_rank` is not an integer.
        ValueError: As for `TensorAllreducer`, or if the group has no such root.
    """

    def __init__(
        self, inputs: Any, root_rank: int = 0, group: tnt_comm.Group | None = None
    ) -> None:
        super().__init__(inputs, group)
        try:
            root_rank = operator.index(root_rank)  # NumPy's are taken, texts and fractions not
        except TypeError:
            raise TypeError(
                f"Rank {get_rank()}: `root_rank` must be an int. Received: {root_rank!r} "
                f"({type(root_rank).__name__})."
            ) from None
        if not 0 <= root_rank < self._group.size:
            raise ValueError(
                f"Rank {get_rank()}: `root_rank` must be a rank inside of the group, in "
                f"[0, {self._group.size}). Received: root_rank={root_rank}."
            )
        self._root = root_rank

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

    def _start_one(self, leaf: Leaf, array: Array, **labels: Any) -> tnt_comm.Ticket[Any]:
        return self._group.start_broadcast(array, self._root, **labels)


class TensorAllgatherer(_TensorCollective):
    """Give all ranks the numbers, arrays or tensors of all, one after another.

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

    def _start_one(self, leaf: Leaf, array: Array, **labels: Any) -> tnt_comm.Ticket[Any]:
        return self._group.start_allgather(array.reshape(-1), **labels)

    def _result_of(self, leaf: Leaf, received: Any) -> Any:
        return leaf.restore(np.concatenate(received))


class _Value:
    def __repr__(self) -> str:
        return "value"


_VALUE = _Value()
"""What is in the place of all values of a nest where its structure is kept."""


class Leaf(NamedTuple):
    """What one value of a nest is."""

    kind: type  # class of Python numbers, `np.generic`, `np.ndarray` or `tf.Tensor`
    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    def restore(self, array: Array) -> Any:
        """Return a result as a value of the same kind. Local."""
        if self.kind is tf.Tensor:
            return tf.convert_to_tensor(array)
        if self.kind is np.ndarray or array.ndim > 0:
            return array
        return self.kind(array[()]) if issubclass(self.kind, (bool, int, float)) else array[()]

    def __str__(self) -> str:
        """Describe it for messages."""
        if self.kind is np.generic:
            return f"{self.dtype} NumPy scalar"
        names = {np.ndarray: "array", tf.Tensor: "tensor"}
        if self.kind not in names:
            return self.kind.__name__
        return f"{self.dtype} {names[self.kind]} of shape {self.shape}"


def leaf_of(value: Any) -> Leaf:
    """Return what a value is; refuse kinds, dtypes and ints that cannot be sent. Local."""
    kind, array = _kind_of(value), as_array(value)
    tnt_comm.arrays.dtype_name(array.dtype)
    return Leaf(kind, array.dtype, array.shape)


def _flattened(nest: Any) -> list[Any]:
    """Return the values of a nest, dicts in the order of their sorted keys."""
    try:
        return list(tf.nest.flatten(nest))
    except TypeError as error:
        raise TypeError(
            f"Rank {get_rank()}: values of a dict are sent in the order of its sorted keys, but "
            f"these cannot be sorted: {error}. Give it keys of one type."
        ) from None


def as_array(value: Any) -> Array:
    """Return a copy of a value, which stays as it is while it is sent. Local."""
    if _kind_of(value) is not int:
        return np.array(value)
    try:
        return np.array(value, np.int64)
    except OverflowError:
        raise ValueError(
            f"Rank {get_rank()}: an int must be in [-2**63, 2**63) to be sent. Received: {value}."
        ) from None


def halves_of(number: Array) -> Array:
    """Return `[high, low]` of an int64 `high * 2**32 + low`, low in [0, 2**32). Local.

    Sums of halves over less than 2**31 members do not wrap around.
    """
    return np.array([number >> 32, number & np.int64(2**32 - 1)])


def joined_halves(sums: Array) -> int:
    """Return the number whose halves have been added up, of any size. Pure."""
    high, low = sums.tolist()
    return int(high * 2**32 + low)


def _paths(nest: Any) -> list[str]:
    """Return where each value of a nest is, in its order: "['a'][0]", "" if it is no nest."""
    if isinstance(nest, Mapping):
        inside = [(repr(key), nest[key]) for key in sorted(nest)]
    elif isinstance(nest, (list, tuple)):
        inside = [(str(index), value) for index, value in enumerate(nest)]
    else:  # a value, or a nest of a kind that only TensorFlow knows
        return ["" for _ in tf.nest.flatten(nest)]
    return [f"[{key}]{path}" for key, value in inside for path in _paths(value)]


def _kind_of(value: Any) -> type:
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"Rank {get_rank()}: a masked array cannot be sent, since its mask would be lost: give "
            "`array.filled(0)`, or its data and its mask."
        )
    # A bool is an int, too, and a NumPy float a float.
    for kind in (np.ndarray, np.generic, bool, int, float):
        if isinstance(value, kind):
            return kind
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return tf.Tensor
    raise TypeError(
        f"Rank {get_rank()}: a {type(value).__name__} cannot be sent, only numbers, NumPy arrays, "
        "eager tensors, and lists, tuples and dicts of these: convert it (a variable by "
        "`variable.numpy()`) or leave it out."
    )
