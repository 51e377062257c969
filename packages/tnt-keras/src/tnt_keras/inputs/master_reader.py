"""Input that the master rank reads for all ranks, as plain Keras reads it.

What draws random numbers that nothing seeds, or goes on from one use to the next, gives other
samples wherever it is read. So one rank reads it, by Keras' own adapter: with its workers, its
shuffle and its read-ahead. At the beginning of a step each rank gets its rows of the batch.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.calls.agree import of_master
from tnt_keras.calls.together import error_of, gather, told
from tnt_keras.inputs.arguments import READ_BY_ALL, READ_BY_MASTER, InputArguments
from tnt_keras.inputs.distributed_input import Batches, Pass
from tnt_keras.inputs.row_messages import Message, RowMessages, messages_of_rows, rows_in
from tnt_keras.keras_hooks.private import DataAdapter
from tnt_keras.process.rank import MASTER_RANK, get_size, is_master_rank, logger
from tnt_keras.step.generators import (
    generator_states,
    set_generator_states,
    use_generators_of_master,
)


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
        "Rank %d reads `%s` for all ranks, since its batches may be others each time they are "
        'read. If they are not, `%s="%s"` spares it the sending.',
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

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch: not known."""
        return None

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


class DrawnByMaster(keras.callbacks.Callback):
    """At the end of a call, all ranks go on from where the master has drawn to while it read.

    So a script draws afterwards what it would after a serial call. The `kind` of the call is
    "training", "testing" or "predicting": a validation is no call of its own.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        self._kind = kind

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Catch up, if this ends the call. Collective."""
        self._catch_up("training")

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Catch up, if this ends the call. Collective."""
        self._catch_up("testing")

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        """Catch up, if this ends the call. Collective."""
        self._catch_up("predicting")

    def _catch_up(self, kind: str) -> None:
        if kind == self._kind:
            use_generators_of_master()


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
