"""One step of training, evaluation or prediction, as all parts of the package see it.

While a step is traced (or run eagerly) it is the *current* step: losses, metrics and optimizers
find in it which part of the global batch this rank holds, and one order for everything that blocks.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf


class Step:
    """The part of one global batch that this rank computes.

    With n_r samples on this rank and n in the global batch, the loss of the serial run is

        L = sum_r (n_r / n) * L_r,

    so a rank's *share* n_r / n is the weight of all that it derives from its mean loss. A rank
    without samples computes on a stand-in sample, with share 0.

    Blocking operations come in groups, one after the other: no operation of a group waits before
    all starts of its group and all of the previous group are done on this rank. Then there is no
    cycle of waiting among ranks, however few threads they have: at the first group at which
    anybody waits, every other rank either waits in it too, hence has made its starts, or is not
    blocked and will make them.

    Share and presence are never constants of a graph, even if all shapes are known: operations that
    take them are computed in every step.

    Attributes:
        num_local: int64 scalar, n_r.
        num_global: int64 scalar, n.
        share: float64 scalar, n_r / n.
        presence: float64 scalar, 1 if n_r > 0, else 0.
        graph: The graph in which the step is traced, None if it is run eagerly.

    Args:
        num_local: As above.
        num_global: As above.
        last_group: Token of a group of blocking operations that comes before the step.
    """

    def __init__(
        self, num_local: tf.Tensor, num_global: tf.Tensor, last_group: tf.Tensor | None = None
    ) -> None:
        self.num_local = num_local
        self.num_global = num_global
        share = tf.math.divide_no_nan(
            tf.cast(num_local, tf.float64), tf.cast(num_global, tf.float64)
        )
        self.share = one() * share
        self.presence = one() * tf.cast(num_local > 0, tf.float64)
        self.graph = current_graph()
        self._last_group = last_group

    def barrier(self, tokens: Sequence[tf.Tensor]) -> tf.Tensor:
        """Opens a group of blocking operations.

        Args:
            tokens: The tokens of the group's starts.

        Returns:
            int32 scalar for the `barrier` of the group's operations.

        Raises:
            RuntimeError: Inside of a `tf.cond` or `tf.while_loop` of the step: ranks could take
                different branches, and then wait for each other for ever.
        """
        if current_graph() is not self.graph:
            raise RuntimeError(
                "Ranks cannot communicate inside of a `tf.cond` or `tf.while_loop` of a step: not "
                "all of them might get there. Compute the loss and call the optimizer outside, "
                "for instance with gradients that are multiplied by 0 or 1."
            )
        previous = [] if self._last_group is None else [self._last_group]
        return tf.add_n([*tokens, *previous])

    def close_group(self, results: Sequence[tf.Tensor]) -> None:
        """Ends the group: the next one waits for these results.

        Args:
            results: What the group's blocking operations returned.
        """
        self._last_group = token_after(results)

    def after_last_group(self, values: Sequence[tf.Tensor]) -> list[tf.Tensor]:
        """Values whose starts wait for the previous group.

        A start needs that if an operation of the previous group uses the same reducer or gatherer,
        or if it could be held up by its own finish.

        Args:
            values: What is to be started with.
        """
        if self._last_group is None:
            return list(values)
        with tf.control_dependencies([self._last_group]):
            return [tf.identity(value) for value in values]

    @property
    def last_group(self) -> tf.Tensor | None:
        """Token of the last closed group, None before the first."""
        return self._last_group


def one() -> tf.Tensor:
    """Returns 1 as a float64 scalar that is no constant of a graph. Local."""
    return _one().read_value()


@functools.cache
def _one() -> tf.Variable:
    """A variable, since TensorFlow does not know that it always holds 1."""
    with tf.init_scope():
        return tf.Variable(1.0, trainable=False, dtype=tf.float64, name="tnt_one")


def token_after(results: Sequence[tf.Tensor]) -> tf.Tensor:
    """Returns an int32 scalar that exists when some results do. Local."""
    with tf.control_dependencies(results):
        return tf.identity(tf.zeros([], tf.int32))


def current_graph() -> Any:
    """Returns the graph that is being traced, None if operations run eagerly. Local."""
    return None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()


class Building:
    """Stands for the step while a model is only traced in order to create its variables."""


_current: contextvars.ContextVar[Step | Building | None] = contextvars.ContextVar(
    "tnt_step", default=None
)


def current_step() -> Step | None:
    """Returns the step that is being traced or run, None outside of one. Local."""
    step = _current.get()
    return step if isinstance(step, Step) else None


def is_building() -> bool:
    """Returns whether a model is just being traced in order to create its variables. Local."""
    return isinstance(_current.get(), Building)


@contextlib.contextmanager
def step_scope(step: Any) -> Iterator[None]:
    """Makes `step` the current one inside a with-block. Local.

    Calls of a user's own `tf.function`s become part of the step: a function that is traced by
    itself would keep what it finds in this step for later ones.

    Args:
        step: A `Step` or a `Building`.
    """
    token = _current.set(step)
    inlines_functions = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(inlines_functions)
        _current.reset(token)
