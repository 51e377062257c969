"""One step of training, evaluation or prediction, as all parts of the package see it.

While a step is traced (or run eagerly) it is the *current* step of its thread: losses, metrics and
optimizers find in it which part of the batch this rank holds, and exchange what they sum through
it.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from tnt_keras.collectives.channel import Channel
from tnt_keras.collectives.exchange import Condition, ExchangeSequence
from tnt_keras.collectives.ops import one
from tnt_keras.keras_hooks.private_tensorflow import autograph_of_inlined_functions
from tnt_keras.process.rank import get_rank
from tnt_keras.step.rules import StepRules


class Tracing:
    """The code of a model's step while it is traced or run eagerly.

    Attributes:
        optimizers: The optimizers that the code has applied, the outermost ones only.
        variables: What they were applied to.
    """

    def __init__(self) -> None:
        self.optimizers: list[Any] = []
        self.variables: list[Any] = []
        self._is_applying = False

    @property
    def is_applying(self) -> bool:
        """Whether an optimizer is being applied."""
        return self._is_applying

    @contextlib.contextmanager
    def applying(self, optimizer: Any, variables: Iterable[Any] = ()) -> Iterator[None]:
        """Note that an optimizer is applied inside a with-block. Local.

        Args:
            optimizer: The outermost one; those that it calls are part of it.
            variables: What it is applied to, if it is given.
        """
        self.variables += variables
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)
        self._is_applying = True
        try:
            yield
        finally:
            self._is_applying = False


class Building(Tracing):
    """A step that is traced only in order to create the variables of a model."""


@dataclasses.dataclass(frozen=True, eq=False)
class ScaledLoss:
    """A loss that an optimizer's `scale_loss` has weighted with the share.

    Attributes:
        optimizer: The optimizer.
        weight: The share, as a tensor of its own that nothing but this loss was multiplied by.
    """

    optimizer: Any
    weight: tf.Tensor


class Step(Tracing):
    """One step, and the part of the batch that this rank computes in it.

    With n_r samples on this rank and n in the global batch, the loss of the serial run is

        L = sum_r (n_r / n) * L_r,

    so a rank's *share* n_r / n is the weight of all that it derives from its mean loss. A rank
    without samples computes on a duplicate of the first sample, with share 0.

    Share and presence are never constants of a graph, even if all shapes are known: operations that
    take them are computed in every step.

    Attributes:
        num_local: int64 scalar, n_r.
        num_global: int64 scalar, n.
        share: float64 scalar, n_r / n.
        presence: float64 scalar, 1 if n_r > 0, else 0.
        rank: The rank whose part it is.
        scaled_losses: The losses that `scale_loss` has weighted with the share.
        rules: How what ranks compute combines, where it is not by default.
        batch_channels: Those of the operations over the batch (`tnt.gather_batch`, ...) and of
            results inside of the step, by name. They must outlive the step.
        gradient_functions: What computes their gradients, for as long as the step's graph is used.
        num_batch_operations: How many of these the code has called so far.
        complete_values: What is that of the global batch already, equal on all ranks.

    Args:
        num_local: As above.
        num_global: As above.
        exchanges: The exchanges of the graph so far, by default none.
    """

    def __init__(
        self,
        num_local: tf.Tensor,
        num_global: tf.Tensor,
        exchanges: ExchangeSequence | None = None,
    ) -> None:
        super().__init__()
        self.num_local = num_local
        self.num_global = num_global
        share = tf.math.divide_no_nan(
            tf.cast(num_local, tf.float64), tf.cast(num_global, tf.float64)
        )
        self.share = one() * share
        self.presence = one() * tf.cast(num_local > 0, tf.float64)
        self.rank = get_rank()
        self.scaled_losses: list[ScaledLoss] = []
        self.rules = StepRules()
        self.batch_channels: dict[str, Channel] = {}
        self.gradient_functions: list[Any] = []
        self._exchanges = ExchangeSequence() if exchanges is None else exchanges
        self._num_applications = 0
        self._num_losses = 0
        self._num_additional_losses = 0
        self.num_batch_operations = 0
        self.complete_values: list[tf.Tensor] = []

    def next_application(self) -> int:
        """Count a call of an optimizer's `apply`, from 0 on. Local."""
        self._num_applications += 1
        return self._num_applications - 1

    def next_loss(self) -> int:
        """Count a call of a Keras loss, from 0 on. Local."""
        self._num_losses += 1
        return self._num_losses - 1

    def next_additional_loss(self) -> int:
        """Count a call of `add_loss`, from 0 on. Local."""
        self._num_additional_losses += 1
        return self._num_additional_losses - 1

    def exchange(self, channel: Channel, collectives: Any) -> Any:
        """Perform some collectives together, as `ExchangeSequence.exchange` does. Collective.

        Args:
            channel: Keeps them apart from all others.
            collectives: A structure of `Allreduce`, `Allgather` and None.

        Returns:
            The structure with the results in the places of the collectives.
        """
        return self._exchanges.exchange(channel, collectives)

    def exchange_if(self, condition: Condition, channel: Channel, collectives: Any) -> Any:
        """Perform some collectives together where a condition holds. Collective.

        Args:
            condition: Equal on all ranks.
            channel: As for `exchange`.
            collectives: As for `exchange`.

        Returns:
            The structure with the results; where the condition does not hold, zeros and no rows.
        """
        return self._exchanges.exchange(channel, collectives, condition=condition)

    def next_batch_operation(self) -> int:
        """Count a call of `tnt.gather_batch` or one of its relatives, from 0 on. Local."""
        self.num_batch_operations += 1
        return self.num_batch_operations - 1

    def loss_weight(self) -> tf.Tensor:
        """Return the weight w_r that the loss of this rank still gets, as float64 scalar. Local.

        The loss of the global batch is L = sum_r w_r * L_r, with what the code of the step
        differentiates on rank r as L_r. With the rules of the step, and `scale_loss` of optimizers,
        which multiplies by n_r / n, w_r is

                                    not scaled  scaled
            mean (default)          n_r / n     1
            sum (rules.sums_losses) 1           n / n_r

        and 0 where n_r is 0: what the gradients are multiplied by later. A step must scale the
        losses for all of its optimizers or for none. Call it in backpropagation, since losses are
        scaled before.
        """
        if self.rules.sums_losses and self.scaled_losses:
            return tf.math.divide_no_nan(self.presence, self.share)
        return self.presence if self.rules.sums_losses or self.scaled_losses else self.share


_current: contextvars.ContextVar[Step | Building | None] = contextvars.ContextVar(
    "tnt_step", default=None
)


_is_serial: contextvars.ContextVar[bool] = contextvars.ContextVar("tnt_serial", default=False)


def current_tracing() -> Step | Building | None:
    """Return what this thread traces or runs, None outside of a model's step. Local."""
    return _current.get()


def current_step() -> Step | None:
    """Return the step that this thread traces or runs, None outside of one. Local."""
    step = _current.get()
    return step if isinstance(step, Step) else None


def is_building() -> bool:
    """Return whether this thread traces a model only to create its variables. Local."""
    return isinstance(_current.get(), Building)


def is_inside_step() -> bool:
    """Return whether this thread traces or runs a step, be it of plain Keras in a proof. Local."""
    return _current.get() is not None or _is_serial.get()


@contextlib.contextmanager
def serial_step() -> Iterator[None]:
    """Take what runs in a with-block for a step, though no other rank takes part. Local."""
    token = _is_serial.set(True)
    try:
        yield
    finally:
        _is_serial.reset(token)


@contextlib.contextmanager
def step_scope(step: Step | Building) -> Iterator[None]:
    """Make `step` the current one of this thread inside a with-block. Local.

    Calls of a user's own `tf.function`s become part of the step: a function that is traced by
    itself would keep what it finds in this step for later ones. TensorFlow can set this for all
    threads only; functions that other threads call meanwhile run eagerly, with the same results.

    Args:
        step: What is traced or run in the block.
    """
    token = _current.set(step)
    try:
        with inlined_functions():
            yield
    finally:
        _current.reset(token)


@contextlib.contextmanager
def inlined_functions() -> Iterator[None]:
    """Inline `tf.function`s into the graphs that call them inside a with-block. Local."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(True)
    tf.get_logger().addFilter(_says_something)
    try:
        with autograph_of_inlined_functions():
            yield
    finally:
        tf.get_logger().removeFilter(_says_something)
        tf.config.run_functions_eagerly(before)


def _says_something(record: logging.LogRecord) -> bool:
    """Filter out the log line on inlined functions, which each `tf.vectorized_map` causes."""
    return "tf.function behavior was disabled" not in record.getMessage()
