"""A step in two processes, each with its replicas, played by two threads of one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition import Input, Replicas, Request, Sharded, TracedStep, build

_REDUCE = {
    "sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


class Mailbox:
    """Where both threads bring their values and get what they are together."""

    def __init__(self) -> None:
        self._values: list[Any] = [None, None]
        self._barrier = threading.Barrier(2, timeout=60)

    def exchange(self, rank: int, kinds: Sequence[str], values: Sequence[Any]) -> list[Any]:
        """Return the values of both, combined. Called by both with the same kinds."""
        self._values[rank] = list(kinds), list(values)
        self._barrier.wait()
        (mine, _), (other, _) = self._values
        assert mine == other, f"{mine} meets {other}"
        pairs = zip(self._values[0][1], self._values[1][1], strict=True)
        combined = [_combined(kind, *pair) for kind, pair in zip(kinds, pairs, strict=True)]
        self._barrier.wait()
        return combined


def _combined(kind: str, first: Any, second: Any) -> Any:
    if kind == "broadcast":
        return first
    if kind == "gather":
        return np.concatenate([first, second])
    return np.asarray(_REDUCE[kind](first, second), np.asarray(first).dtype)


class OfTwo:
    """The exchange of one of two processes: one at a time, in the order of the graph."""

    def __init__(self, rank: int, mailbox: Mailbox) -> None:
        self._rank, self._mailbox = rank, mailbox
        self._asked: list[Request] = []
        self._before: dict[Any, tf.Operation] = {}

    def ask(self, request: Request) -> None:
        self._asked.append(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        asked, self._asked = self._asked, []
        return self._meet(asked)

    def blocking(self, request: Request) -> tf.Tensor:
        return self._meet([request])[0]

    def ordered(self, make: Callable[[], list[tf.Tensor]]) -> list[tf.Tensor]:
        with tf.control_dependencies(self._last()):
            made = make()
        self._note(made)
        return made

    def _meet(self, requests: Sequence[Request]) -> list[tf.Tensor]:
        kinds = [request.kind for request in requests]

        def exchange(*values: Any) -> list[Any]:
            return self._mailbox.exchange(self._rank, kinds, values)

        values = [request.value for request in requests]
        with tf.control_dependencies(self._last()):
            made = tf.numpy_function(exchange, values, [v.dtype for v in values])
        self._note(made)
        for tensor, request in zip(made, requests, strict=True):
            if request.kind not in ("broadcast", "gather"):
                tensor.set_shape(request.value.shape)
        return list(made)

    def _last(self) -> list[tf.Operation]:
        graph = tf.compat.v1.get_default_graph()
        return [self._before[graph]] if graph in self._before else []

    def _note(self, made: Sequence[Any]) -> None:
        last = made[0].op if isinstance(made[0], tf.Tensor) else made[0]
        self._before[last.graph] = last


def run_in_two_processes(
    traced: TracedStep, batch: Sequence[Any], replicas_each: int, **options: Any
) -> list[Any]:
    """Run a step that assigns nothing. -> what it returns in each of the processes.

    Options are those of `build`.
    """
    tensors = [tf.convert_to_tensor(a) for a in batch]
    num_rows, total = int(tensors[0].shape[0]), 2 * replicas_each
    inputs = [Input(tuple(t.shape), Sharded(0)) for t in tensors]
    mailbox = Mailbox()
    steps = []
    for rank in range(2):
        replicas = Replicas(rank * replicas_each, replicas_each, total)
        exchange = OfTwo(rank, mailbox)
        step = build(
            traced, inputs, replicas, num_rows, lambda _, exchange=exchange: exchange, **options
        )
        steps.append((step, [t[v::total] for t in tensors for v in replicas.numbers]))
    results: list[Any] = [None, None]

    def run(rank: int) -> None:
        step, local = steps[rank]
        results[rank] = step(*local)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert None not in results, "A process has failed."
    return results
