"""Let a process compute a few of its lanes at a time, so that memory is that of a few."""

from __future__ import annotations

from collections import defaultdict

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import add_control_input


class LaneOrder:
    """The order in which lanes of one graph are computed: each when one before it is done.

    Lanes are independent until they first come to what all of them come to: an exchange, a loop or
    branch, or an operation that waits for all. If that is an exchange, lane `i + m` of a process
    begins when lane `i` has given its part, for `m` lanes at once.

    Only operations of this package wait: TensorFlow fuses no operation that waits for another one,
    so that lanes would not have the same bits.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._begins: dict[int, list[tf.Operation]] = defaultdict(list)
        self._ends: dict[int, list[tf.Operation]] = defaultdict(list)
        self._is_open = True

    def begins_with(self, lane: int, operation: tf.Operation) -> None:
        """Note an operation with which a lane, counted within the process, begins."""
        if self._is_open:
            self._begins[lane].append(operation)

    def ends_with(self, lane: int, operation: tf.Operation) -> None:
        """Note an operation by which a lane gives what is exchanged first."""
        if self._is_open:
            self._ends[lane].append(operation)

    def exchange(self) -> None:
        """Let lanes wait for each other, at the first exchange of the graph."""
        begins, ends = self._begins, self._ends
        for lane in sorted(begins if self._is_open else ()):
            before = ends.get(lane - self._at_once)
            if before:
                with tf.control_dependencies(before):
                    end = tf.no_op()
                for operation in begins[lane]:
                    add_control_input(operation, end)
        self.meet()

    def meet(self) -> None:
        """Note that all lanes have come to the same operation: later ones do not wait."""
        self._is_open = False
