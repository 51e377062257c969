"""Input that the master rank reads for all ranks, as plain Keras reads it.

What draws random numbers that nothing seeds, or goes on from one use to the next, gives other
samples wherever it is read. So one rank reads it, by Keras' own adapter: with its workers, its
shuffle and its read-ahead. At the beginning of a step each rank gets its rows, in a message.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import keras
import numpy as np
import tensorflow as tf

import tnt_data
from tnt_keras.calls.agree import of_master
from tnt_keras.calls.messages import scatter
from tnt_keras.calls.together import error_of, gather, told
from tnt_keras.inputs.arguments import READ_BY_ALL, READ_BY_MASTER, InputArguments
from tnt_keras.inputs.distributed_input import Batches, Pass
from tnt_keras.keras_hooks.private import DataAdapter
from tnt_keras.process.lanes import row_split
from tnt_keras.process.rank import MASTER_RANK, get_size, is_master_rank, logger
from tnt_keras.step.batch import has_rows, in_order_of_rows, num_rows, rows_at
from tnt_keras.step.replicas import (
    generator_states,
    set_generator_states,
    use_generators_of_master,
)

Array: TypeAlias = np.ndarray[Any, Any]

_ALIGNMENT = 64  # of arrays in a message
_PREFIX = np.dtype([("longest", np.int64), ("head", np.int64)])  # sizes in bytes


def is_read_by_master(given: InputArguments, differs: Callable[[], bool]) -> bool:
    """Return whether the master rank is to read an input for all. Collective unless that is said.

    `differs` finds out whether ranks that read it would see different batches, or may do so.
    """
    if get_size() == 1 or not given.distribute:
        return False
    if given.read is not None:
        return given.read == READ_BY_MASTER
    if not of_master("who reads the data", is_master_rank() and differs()):
        return False
    logger.info(
        "Rank %d reads `%s` for all ranks, since its batches may differ each time they are read. "
        'If they do not, `%s="%s"` avoids sending them.',
        MASTER_RANK,
        given.keywords.x,
        given.keywords.read,
        READ_BY_ALL,
    )
    return True


class MasterInput(DataAdapter):
    """Input for a method of Keras that the master rank reads for all.

    `make_adapter` makes Keras' adapter of the user's input, on that rank, and when it is needed
    first: nothing is read earlier than in plain Keras. `may_differ`: components of a batch may have
    other numbers of rows than it has samples.
    """

    def __init__(self, make_adapter: Callable[[], Any], *, may_differ: bool = False) -> None:
        self._make_adapter = make_adapter
        self._may_differ = may_differ
        self._adapter: Any = None  # of the master rank
        self._opened: tuple[Any, int | None] | None = None  # specs of a batch, their number

    def get_tf_dataset(self) -> Batches:
        """Return what yields this rank's rows of each batch. Collective if it is the first call."""
        spec, number = self._open()
        dataset = self._adapter.get_tf_dataset() if is_master_rank() else ()

        def begin_pass() -> Pass:
            return Pass(_rows_of_batches(iter(dataset), spec, self._may_differ), spec)

        return Batches(spec, number, begin_pass)

    @property
    def num_batches(self) -> int | None:
        """Batches in an epoch, None if not known. Collective."""
        self._open()
        number: int | None = _of_master("tell their number", lambda: self._adapter.num_batches)
        return number

    def on_epoch_begin(self) -> None:
        """Start workers. Collective."""
        _of_master("begin an epoch", lambda: self._adapter.on_epoch_begin())

    def on_epoch_end(self) -> None:
        """Stop workers. Collective."""
        _of_master("end an epoch", lambda: self._adapter.on_epoch_end())

    def _open(self) -> tuple[Any, int | None]:
        if self._opened is None:
            self._opened = _of_master("read the first batches", self._look)
        return self._opened

    def _look(self) -> tuple[Any, int | None]:
        self._adapter = self._make_adapter()
        return _without_optional(
            self._adapter.get_tf_dataset().element_spec
        ), self._adapter.num_batches


_ENDS = {"training": "on_train_end", "testing": "on_test_end", "predicting": "on_predict_end"}


def catching_up_after(kind: str) -> keras.callbacks.Callback:
    """Return what lets all ranks go on from where the master has drawn to when a call ends. Local.

    So a script draws afterwards what it would after a serial call. The `kind` is that of the call:
    a validation is no call of its own.
    """
    end: dict[str, Any] = {_ENDS[kind]: lambda logs: use_generators_of_master()}
    return keras.callbacks.LambdaCallback(**end)


def _rows_of_batches(
    whole: Iterator[Any], element_spec: Any, may_differ: bool
) -> Iterator[tnt_data.MicroBatch]:
    """Yield this rank's rows of batches, which only the master rank is given. Collective.

    Whatever the master rank meets, all ranks are told of it; if it is an error, the others go on
    from where the master has drawn to.
    """
    exchange = RowMessages().exchange
    while True:
        error: Exception | None = None
        messages: list[Message] = []
        if is_master_rank():
            try:
                messages = _messages_of_next(whole, may_differ)
            except Exception as failure:  # of any class
                error = failure
                messages = [Message.of((told(failure), generator_states()))] * get_size()
        received = exchange(messages)
        if error is not None:
            raise error
        if received[0] is None:
            return
        if isinstance(received[0][0], bytes):
            message, states = received[0]
            set_generator_states(states)
            raise error_of(MASTER_RANK, message, "could not make the next batch")
        yield rows_in(received, element_spec)


def _messages_of_next(whole: Iterator[Any], may_differ: bool) -> list[Message]:
    """Return the messages to all ranks about the next batch, or that there is none."""
    try:
        batch = next(whole)
    except (StopIteration, tf.errors.OutOfRangeError):
        return [Message.of(None)] * get_size()
    return messages_of_rows(_without_optional(batch), may_differ=may_differ)


def _without_optional(batch: Any) -> Any:
    """Return a batch, or its spec, with None where Keras hides that from tf.data."""
    hidden = (tf.experimental.Optional, tf.OptionalSpec)
    return tf.nest.map_structure(lambda leaf: None if isinstance(leaf, hidden) else leaf, batch)


def _of_master(task: str, action: Callable[[], Any]) -> Any:
    """Return what an action returns on the master rank; its error is that of all. Collective."""
    of_ranks = gather(
        f"data: {task}",
        lambda: pickle.dumps(action()) if is_master_rank() else b"",
        f"could not {task}",
    )
    return pickle.loads(of_ranks[MASTER_RANK])


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
        split = dataclasses.replace(row_split(), rank=rank)
        rows = split.rows(num_global)
        components = [
            component
            for leaf, is_whole in zip(leaves, shared, strict=True)
            for component in _rows_of(leaf, is_whole, rows)
        ]
        messages.append(Message.of((split.num_rows(num_global), num_global, shared), components))
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


def _rows_of(leaf: Any, is_whole: bool, rows: Sequence[int]) -> list[Any]:
    """Return the components of rows of a leaf as arrays, strings as objects."""
    if leaf is None:
        return [None]
    if isinstance(leaf, (tf.RaggedTensor, tf.SparseTensor)):
        part = leaf if is_whole else rows_at(leaf, tf.constant(list(rows), tf.int64))
        return [each.numpy() for each in tf.nest.flatten(part, expand_composites=True)]
    array = leaf.numpy()
    if is_whole or not has_rows(leaf):
        return [array]
    if isinstance(rows, range):  # a view, which is copied once, into the message
        return [array[rows.start : rows.stop : rows.step]]
    return [array[rows]]


def _is_of_numbers(component: Any) -> bool:
    return isinstance(component, np.ndarray) and not component.dtype.hasobject


def _places(head: int, sizes: Sequence[int]) -> Iterator[slice]:
    begin = _PREFIX.itemsize + head
    for size in sizes:
        begin = -(-begin // _ALIGNMENT) * _ALIGNMENT
        yield slice(begin, begin + size)
        begin += size
    yield slice(begin, None)
