"""Exchanges: groups of collectives, which a graph performs in a fixed order."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.always_run import run_in_any_case
from tnt_keras.collectives.channel import Channel, Operation


def _nothing_to_check(results: list[tf.Tensor]) -> list[tf.Tensor]:
    return results


@dataclasses.dataclass(frozen=True, eq=False)
class Condition:
    """When an exchange takes place, and what a rank does besides. All ranks must decide alike.

    Attributes:
        holds: bool scalar, equal on all ranks.
        then: Called to trace (or run) what is done where it holds; must not communicate.
        otherwise: The same where it does not hold.
    """

    holds: tf.Tensor
    then: Callable[[], None]
    otherwise: Callable[[], None]


class ExchangeSequence:
    """The exchanges of one graph, in an order in which ranks cannot wait for each other for ever.

    An exchange is a group of operations that block a thread of TensorFlow. Groups come one after
    the other: no operation of a group waits before all starts of its group and all of the previous
    group are done on this rank. Then there is no cycle of waiting among ranks, however few threads
    they have: at the first group at which a rank waits, every other rank either waits in it too,
    hence has made its starts, or is not blocked and will make them.

    Starts wait for nothing but their tensors, so that a gradient is on its way while
    backpropagation goes on. Only where the channel was used before in this graph (the same loss
    twice, several steps in one graph) do they wait for the previous group, since a reducer or
    gatherer begins nothing new before it has finished.

    All of a group is finished, whichever of its results the graph uses: what is started in one step
    and not finished could not be started in the next one.

    It belongs to the graph that is being traced when it is created, or to eager execution.
    """

    def __init__(self) -> None:
        self._graph = _current_graph()
        self._last_group: tf.Tensor | None = None
        self._used_channels: list[Channel] = []

    def is_of_current_graph(self) -> bool:
        """Return whether the graph that is being traced is the one of this sequence. Local.

        It is not when operations run eagerly: eager steps are done before the next one begins.
        """
        return self._graph is not None and self._graph is _current_graph()

    def exchange(
        self,
        channel: Channel,
        collectives: Any,
        check: Callable[[list[tf.Tensor]], list[tf.Tensor]] = _nothing_to_check,
        condition: Condition | None = None,
    ) -> Any:
        """Perform some collectives together. Collective.

        Args:
            channel: Keeps them apart from all others.
            collectives: A structure (as for `tf.nest`) of `Allreduce` and `Allgather`; None means
                that there is nothing to do in its place.
            check: Called with the results; the next exchange waits for what it returns.
            condition: If given, nothing is sent where it does not hold.

        Returns:
            The structure with the results in the places of the collectives: sums, of shape and
            dtype of the value, and rows of all ranks in rank order. They are bitwise the same on
            every rank. Where a condition does not hold sums are zero, and there are no rows.

        Raises:
            RuntimeError: Inside of a `tf.cond` or `tf.while_loop` of the step: ranks could take
                different branches, and then wait for each other for ever.
            TypeError: As `Channel.operations` does.
            ValueError: As `Channel.operations` does.
            tf.errors.OpError: When the graph runs, if a collective fails: `UnavailableError` if a
                rank was lost, `DeadlineExceededError` at the deadline, `AbortedError` if ranks
                called different things.
        """
        places = tf.nest.flatten(collectives)
        present = [collective for collective in places if collective is not None]
        results = iter(self._perform(channel, present, check, condition) if present else [])
        filled = [None if collective is None else next(results) for collective in places]
        return tf.nest.pack_sequence_as(collectives, filled)

    def _perform(
        self,
        channel: Channel,
        collectives: Sequence[Any],
        check: Callable[[list[tf.Tensor]], list[tf.Tensor]],
        condition: Condition | None,
    ) -> list[tf.Tensor]:
        self._check_graph()
        operations = channel.operations(collectives)
        previous = [] if self._last_group is None else [self._last_group]
        was_used = any(channel is used for used in self._used_channels)

        def perform() -> tuple[tf.Tensor, list[tf.Tensor]]:
            tokens = [operation.start(previous if was_used else []) for operation in operations]
            barrier = tf.add_n([*tokens, *previous])
            finishes = [operation.finish(barrier) for operation in operations]
            return tf.add_n([token for token, _ in finishes]), [result for _, result in finishes]

        finished, results = perform() if condition is None else _if(condition, perform, operations)
        run_in_any_case(finished)
        results = check(results)
        with tf.control_dependencies(results):  # a check may have come after the finish
            self._last_group = tf.identity(finished)
        self._used_channels.append(channel)
        return results

    def _check_graph(self) -> None:
        if _current_graph() is not self._graph:
            raise RuntimeError(
                "Ranks cannot communicate inside of a `tf.cond` or `tf.while_loop` (nor in "
                "`tf.map_fn`, which is one) of a step: not all of them might get there. Compute "
                "the loss and call the optimizer, `tnt.gather_batch`, `tnt.batch_sum` and "
                "`tnt.batch_mean` outside. To update weights every k-th step only, let the "
                "optimizer add up gradients (`gradient_accumulation_steps=k`), or decide by an "
                "argument of the step from Python."
            )


def _if(
    condition: Condition,
    perform: Callable[[], tuple[tf.Tensor, list[tf.Tensor]]],
    operations: Sequence[Operation],
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Return the token and the results of some operations if a condition holds.

    When the graph runs, TensorFlow makes a branch part of it: each start waits for its own tensor
    there, as it does outside of a branch. For that, nothing in the branch may wait for all of it:
    what runs in any case (see `run_in_any_case`) is outside.
    """

    def then() -> tuple[tf.Tensor, list[tf.Tensor]]:
        condition.then()
        return perform()

    def otherwise() -> tuple[tf.Tensor, list[tf.Tensor]]:
        condition.otherwise()
        return tf.constant(0), [operation.skip() for operation in operations]

    finished, results = tf.cond(condition.holds, then, otherwise)
    return finished, results


def _current_graph() -> Any:
    """Return the graph that is being traced, None if operations run eagerly."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
