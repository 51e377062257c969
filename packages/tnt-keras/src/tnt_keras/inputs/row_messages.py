"""Rows of a batch as messages from the master rank, which has the batch, to each rank."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

import tnt_data
from tnt_keras.calls.messages import scatter
from tnt_keras.process.rank import get_size
from tnt_keras.step.batch import has_rows, in_order_of_rows, num_rows, rows_at

Array: TypeAlias = np.ndarray[Any, Any]

_ALIGNMENT = 64  # of arrays in a message
_PREFIX = np.dtype([("longest", np.int64), ("head", np.int64)])  # sizes in bytes


@dataclasses.dataclass(frozen=True)
class Message:
    """What can be pickled, and arrays of numbers behind it, which are copied once."""

    head: bytes
    arrays: tuple[Array, ...] = ()

    @classmethod
    def of(cls, value: Any, components: Sequence[Any] = ()) -> Message:
        """Make a message of a value, and of arrays of any dtype, scalars and None."""
        arrays = tuple(each for each in components if _is_of_numbers(each))
        kinds = [(e.dtype, e.shape) if _is_of_numbers(e) else (None, e) for e in components]
        return cls(pickle.dumps((value, kinds)), arrays)

    def places(self) -> Iterator[slice]:
        """Yield where in the message the arrays are, and at last what is behind them."""
        return _places(len(self.head), [array.nbytes for array in self.arrays])

    def write(self, target: Array) -> None:
        """Write the message into bytes that are at least as many."""
        target[: _PREFIX.itemsize].view(_PREFIX)["head"] = len(self.head)
        target[_PREFIX.itemsize :][: len(self.head)] = np.frombuffer(self.head, np.uint8)
        for array, place in zip(self.arrays, self.places(), strict=False):
            np.copyto(target[place].view(array.dtype).reshape(array.shape), array)

    @property
    def num_bytes(self) -> int:
        """Length of the message."""
        *_, behind = self.places()
        return behind.start


def read_message(source: Array) -> tuple[Any, list[Any]]:
    """Return the value and the components of a message; its bytes must stay as they are. Local."""
    length = int(source[: _PREFIX.itemsize].view(_PREFIX)["head"][0])
    value, kinds = pickle.loads(source[_PREFIX.itemsize :][:length].tobytes())
    sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, shape in kinds if dtype is not None]
    places = _places(length, sizes)
    return value, [
        rest if dtype is None else source[next(places)].view(dtype).reshape(rest)
        for dtype, rest in kinds
    ]


class RowMessages:
    """Messages from the master rank to each rank, one after the other.

    One takes one collective, and another one if it is longer than all before it.
    """

    def __init__(self) -> None:
        self._buffer: Array = np.zeros((get_size(), _PREFIX.itemsize), np.uint8)

    def exchange(self, messages: Sequence[Message]) -> tuple[Any, list[Any]]:
        """Return the message to this rank; the master rank gives those to all. Collective."""
        longest = max((each.num_bytes for each in messages), default=0)
        while True:
            for message, target in zip(messages, self._buffer, strict=False):
                target[: _PREFIX.itemsize].view(_PREFIX)["longest"] = longest
                if longest <= len(target):
                    message.write(target)
            received = scatter("rows of a batch", self._buffer)
            longest = int(received[: _PREFIX.itemsize].view(_PREFIX)["longest"][0])
            if longest <= len(received):
                return read_message(received)
            self._buffer = np.empty((get_size(), longest), np.uint8)


def messages_of_rows(batch: Any, *, may_differ: bool) -> list[Message]:
    """Return the rows of each rank of a batch of eager tensors. Local.

    `may_differ`: components with other numbers of rows than the batch has samples go to all ranks.
    """
    if not may_differ:
        batch = tnt_data.check_rows(batch)
    leaves = [in_order_of_rows(leaf) for leaf in tf.nest.flatten(batch)]
    num_global = int(num_rows(batch))
    shared = np.array([has_rows(leaf) and leaf.shape[0] != num_global for leaf in leaves])
    messages = []
    for rank in range(get_size()):
        rows = range(rank, num_global, get_size())
        components = [
            component
            for leaf, is_whole in zip(leaves, shared, strict=True)
            for component in _rows_of(leaf, is_whole, rows or range(min(num_global, 1)))
        ]
        messages.append(Message.of((len(rows), num_global, shared), components))
    return messages


def rows_in(message: tuple[Any, list[Any]], element_spec: Any) -> tnt_data.MicroBatch:
    """Return the rows in one of `messages_of_rows`. Local."""
    (num_local, num_global, shared), components = message
    specs = tf.nest.flatten(element_spec, expand_composites=True)
    with tf.device("CPU:0"):  # where those of a dataset are
        tensors = [
            None if each is None else tf.convert_to_tensor(each, spec.dtype)
            for each, spec in zip(components, specs, strict=True)
        ]
    data = tf.nest.pack_sequence_as(element_spec, tensors, expand_composites=True)
    return tnt_data.MicroBatch(data, num_local, num_global, shared=shared)


def _rows_of(leaf: Any, is_whole: bool, rows: range) -> list[Any]:
    """Return the components of rows of a leaf as arrays, strings as objects."""
    if leaf is None:
        return [None]
    if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
        part = leaf if is_whole else rows_at(leaf, tf.constant(rows, tf.int64))
        return [each.numpy() for each in tf.nest.flatten(part, expand_composites=True)]
    array = leaf.numpy()
    if is_whole or not has_rows(leaf):
        return [array]
    return [array[rows.start : rows.stop : rows.step]]


def _is_of_numbers(component: Any) -> bool:
    return isinstance(component, np.ndarray) and not component.dtype.hasobject


def _places(head: int, sizes: Sequence[int]) -> Iterator[slice]:
    begin = _PREFIX.itemsize + head
    for size in sizes:
        begin = -(-begin // _ALIGNMENT) * _ALIGNMENT
        yield slice(begin, begin + size)
        begin += size
    yield slice(begin, None)
