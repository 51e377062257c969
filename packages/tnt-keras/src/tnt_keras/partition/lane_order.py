"""Let a process compute a few of its lanes at a time, so that memory is that of a few."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import add_control_input


class LaneOrder:
    """The order in which lanes of one graph are computed: each when one before it is done.

    Lanes are independent between the points to which all of them come: exchanges, loops and
    branches, and operations that wait for those of all lanes. Between two such points lane `i + m`
    of a process begins when lane `i` has ended, for `m` lanes at once.
    """

    def __init__(self, num_lanes: int, at_once: int) -> None:
        self._at_once = at_once
        self._operations: list[list[tf.Operation]] = [[] for _ in range(num_lanes)]

    def add(self, lane: int, operation: tf.Operation) -> None:
        """Note an operation of a lane, counted within the process."""
        self._operations[lane].append(operation)

    def join(self) -> None:
        """Order what lanes have computed so far; what follows waits for all of it."""
        lanes, self._operations = self._operations, [[] for _ in self._operations]
        for before, after in zip(lanes, lanes[self._at_once :], strict=False):
            if before and after:
                _order(before, after)


def _order(before: Sequence[tf.Operation], after: Sequence[tf.Operation]) -> None:
    """Let the first operations of a lane wait for the last ones of another."""
    with tf.control_dependencies(_last(before)):
        end = tf.no_op()
    of_lane = set(after)
    for operation in after:
        inputs = {tensor.op for tensor in operation.inputs}
        if of_lane.isdisjoint(inputs) and of_lane.isdisjoint(operation.control_inputs):
            add_control_input(operation, end)


def _last(operations: Sequence[tf.Operation]) -> list[tf.Operation]:
    read = {tensor.op for operation in operations for tensor in operation.inputs}
    return [operation for operation in operations if operation not in read]
