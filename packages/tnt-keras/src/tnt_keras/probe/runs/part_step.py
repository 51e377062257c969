"""The step of this rank's part of the probed samples."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.collectives.channel import Allreduce, Channel
from tnt_keras.collectives.messages import allgather
from tnt_keras.step.context import Step
from tnt_keras.step.optimizer import replaced_method, weighted_loss
from tnt_keras.step.rules import StepRules

NumpyArray: TypeAlias = "np.ndarray[Any, Any]"


class PartStep(Step):
    """A step that runs eagerly and exchanges at once, without the reducers of training.

    A reducer that was started must be finished, which a step that fails in the middle does not do:
    training could not go on with it.

    Args:
        num_local: Samples of this rank.
        num_global: Samples of all ranks.
        rules: That the step follows.

    Attributes:
        denominators: The channel of the denominators of losses.
    """

    def __init__(self, num_local: int, num_global: int, rules: StepRules) -> None:
        super().__init__(tf.constant(num_local, tf.int64), tf.constant(num_global, tf.int64))
        self.rules = rules
        self.denominators = Channel("loss denominators")

    def exchange(self, channel: Channel, collectives: Any) -> Any:
        """Perform some collectives together. Collective.

        Args:
            channel: Has no effect here.
            collectives: As for `Step.exchange`.

        Returns:
            As `Step.exchange`.

        Raises:
            tnt_comm.MismatchError: If ranks exchange different things.
        """
        places = tf.nest.flatten(collectives)
        results = [None if place is None else _perform(place) for place in places]
        return tf.nest.pack_sequence_as(collectives, results)


@contextlib.contextmanager
def weighted_losses(step: PartStep) -> Iterator[None]:
    """Multiply losses by the share where optimizers scale them in a with-block. Local.

    So does the distributed step, see `DistributedOptimizer.scale_loss`.

    Args:
        step: Whose share it is.
    """
    is_scaling = False

    def weighting(plain_scale: Callable[..., Any]) -> Callable[..., Any]:
        def scale_loss(optimizer: Any, loss: Any) -> Any:
            nonlocal is_scaling
            if is_scaling:  # by an optimizer around this one
                return plain_scale(optimizer, loss)
            is_scaling = True
            try:
                scaled = plain_scale(optimizer, loss)
            finally:
                is_scaling = False
            return weighted_loss(optimizer, scaled, step)

        return scale_loss

    with replaced_method("scale_loss", weighting):
        yield


def _perform(collective: Any) -> tf.Tensor:
    """Exchange at once, or when the graph runs if the step is traced."""
    if isinstance(collective, Allreduce):
        return _call(
            _sum, collective.name, collective.value, collective.scale, collective.value.shape
        )
    shape = [None, *collective.rows.shape[1:]]
    return _call(_rows, collective.name, collective.rows, collective.presence, shape)


def _call(
    function: Callable[..., NumpyArray], name: str, value: tf.Tensor, factor: tf.Tensor, shape: Any
) -> tf.Tensor:
    exchange = functools.partial(function, name)
    if tf.executing_eagerly():
        return tf.constant(exchange(value.numpy(), factor.numpy()))
    result = tf.numpy_function(exchange, [value, factor], value.dtype)
    result.set_shape(shape)
    return result


def _sum(name: str, value: NumpyArray, scale: NumpyArray) -> NumpyArray:
    summand = np.zeros_like(value) if scale == 0 else (value * scale).astype(value.dtype)
    parts = np.stack(_of_all_ranks(name, summand))
    exact = value.dtype if value.dtype.kind in "iu" else np.float64  # integers wrap around
    return np.asarray(parts.sum(axis=0, dtype=exact).astype(value.dtype).reshape(value.shape))


def _rows(name: str, rows: NumpyArray, presence: NumpyArray) -> NumpyArray:
    parts = _of_all_ranks(name, rows if presence > 0 else rows[:0])
    return np.concatenate([part.reshape(-1, *rows.shape[1:]) for part in parts])


def _of_all_ranks(name: str, array: NumpyArray) -> list[NumpyArray]:
    messages = allgather(f"proof of the step: {name}", array.tobytes())
    return [np.frombuffer(message, array.dtype) for message in messages]
