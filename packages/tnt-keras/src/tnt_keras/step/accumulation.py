"""Add up gradients on each rank over the steps of an update, and exchange them once.

With `gradient_accumulation_steps=k` Keras adds up the gradients of k steps in variables of the
optimizer, and in the k-th step applies their mean. The gradient of step i is g_i = sum_r w_ir g_ir,
with the gradient g_ir of rank r and its weight w_ir in the sum (n_ir / n_i by default). So

    sum_i g_i = sum_r (sum_i w_ir g_ir),

and it is the inner sum that ranks exchange, in the k-th step alone. Keras' optimizer is given zeros
in the others, so that all it does besides (count, average weights, keep constraints) is as ever.

The inner sums are no variables of the optimizer, which are equal on all ranks: who is to see those
as they are in the serial run calls `settle` before. That adds up in another order, which is the
same to rounding.
"""

from __future__ import annotations

import concurrent.futures
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import tensorflow as tf

from tnt_keras.collectives.alone import what_is_alone
from tnt_keras.collectives.channel import Allgather, Allreduce, Channel
from tnt_keras.collectives.collective_call import collective_call
from tnt_keras.collectives.exchange import Condition, ExchangeSequence
from tnt_keras.collectives.messages import allreduce
from tnt_keras.collectives.ops import one
from tnt_keras.keras_hooks.private import accumulates_as_keras, accumulator_of, steps_of
from tnt_keras.process.log import logger
from tnt_keras.step.context import Step
from tnt_keras.step.gradients import Gradient, LocalGradient, weight_of_rank
from tnt_keras.step.rules import Rule


def can_accumulate(cls: Any, gradients: Sequence[LocalGradient], variables: Sequence[Any]) -> bool:
    """Return whether an optimizer that accumulates sees sums of gradients only. Local.

    A method of its own that changes gradients before they are added up must see those of each step,
    and so must a variable that takes its gradient for its value.

    Args:
        cls: Of the optimizer, whose `apply` and `apply_gradients` are those of Keras.
        gradients: That it is given.
        variables: What they are for.
    """
    return (
        accumulates_as_keras(cls)
        and not any(getattr(each, "overwrite_with_gradient", False) for each in variables)
        and all(each.rule in (Rule.MEAN, Rule.SUM) for each in gradients)
        and not any(each.is_from_float16 for each in gradients)
    )


_Made = TypeVar("_Made")

# Not attributes of the optimizers, whose copies and files would contain them.
_of_optimizers: weakref.WeakKeyDictionary[Any, Accumulation] = weakref.WeakKeyDictionary()


def accumulation_for(optimizer: Any, channel: Channel) -> Accumulation:
    """Return what this rank adds up for an optimizer, made by the first call. Local.

    Args:
        optimizer: With `gradient_accumulation_steps`.
        channel: As `gradient_channel` makes it.
    """
    if optimizer not in _of_optimizers:
        _of_optimizers[optimizer] = Accumulation(channel)
    return _of_optimizers[optimizer]


def settle(optimizers: Sequence[Any]) -> None:
    """Give optimizers what ranks have added up for them on their own. Collective.

    Afterwards their variables are those of the serial run, in the middle of an update too. On a
    rank that runs alone, such as the master in a callback of its own, nothing is done.

    Args:
        optimizers: The same on all ranks, whether they accumulate or not.
    """
    if what_is_alone() is not None:
        return
    for optimizer in optimizers:
        if optimizer in _of_optimizers:
            _of_optimizers[optimizer].settle(optimizer)


def settle_before_copy(optimizers: Sequence[Any]) -> None:
    """Call `settle` if something is pending, which is so on all ranks or on none. Collective then.

    A rank may copy or pickle what it likes without the others at any other time.

    Args:
        optimizers: As for `settle`.
    """
    if any(map(_is_pending, optimizers)):
        collective_call("copy in the middle of gradient accumulation", is_local_alone=True)(settle)(
            optimizers
        )


def _is_pending(optimizer: Any) -> bool:
    return optimizer in _of_optimizers and _of_optimizers[optimizer].is_pending


def forget(optimizer: Any) -> None:
    """Drop what this rank has added up: the optimizer's state was set. Local.

    Args:
        optimizer: Any optimizer.
    """
    if optimizer in _of_optimizers:
        _of_optimizers[optimizer].forget()


def warn_if_pending(optimizer: Any) -> None:
    """Log a warning if an optimizer's variables lack what ranks have added up. Local.

    Args:
        optimizer: Any optimizer, which is about to be written.
    """
    if _is_pending(optimizer):
        logger.warning(
            "The optimizer %r is saved or copied in the middle of gradient accumulation by one "
            "rank alone, or without its model: the gradients since the last update, which each "
            "rank has added up for itself, are missing. Call `model.save` or "
            "`model.save_weights`, or copy the model, on all ranks, or do it when an epoch has "
            "ended.",
            optimizer.name,
        )


class Accumulation:
    """What this rank has added up since the last exchange, for one optimizer.

    Args:
        channel: As `gradient_channel` makes it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._sums: dict[tuple[int, type], _Sum] = {}
        self._num_steps, self._update = _outside_of_graphs(lambda: (_counter(0), _counter(0)))

    @property
    def is_pending(self) -> bool:
        """Whether there are gradients of this rank that the optimizer's variables lack."""
        return int(self._num_steps.numpy()) > 0

    def forget(self) -> None:
        """Drop what was added up, since the optimizer goes on from another state. Local.

        That holds for all sums, as in Keras: also those of variables which a graph does not know,
        since another graph trains them.
        """
        self._num_steps.assign(0)
        self._update.assign_add(1)

    def reduce(
        self,
        gradients: Sequence[LocalGradient],
        variables: Sequence[Any],
        is_weighted: bool,
        step: Step,
        optimizer: Any,
    ) -> list[Gradient]:
        """Return what the optimizer is to be given in this step. Collective.

        Args:
            gradients: Of this rank.
            variables: What they are for.
            is_weighted: As for `global_gradients`.
            step: The current step.
            optimizer: Says whether this is the step of an update.

        Returns:
            One gradient for each given one, of the same kind; None stays None. In the step of an
            update, those of all ranks and of all steps since the last one; else zeros.
        """
        present = [
            (self._sum_of(variable, gradient), gradient)
            for variable, gradient in zip(variables, gradients, strict=True)
            if gradient.value is not None
        ]
        totals = [
            each.plus(gradient.value, weight_of_rank(gradient.rule, is_weighted, step))
            for each, gradient in present
        ]

        def keep() -> None:
            self._num_steps.assign_add(1)
            for (each, _), total in zip(present, totals, strict=True):
                each.keep(total)

        num_steps = optimizer.gradient_accumulation_steps
        is_update = tf.equal((tf.convert_to_tensor(steps_of(optimizer)) + 1) % num_steps, 0)
        results = iter(
            step.exchange_if(
                Condition(is_update, then=self.forget, otherwise=keep),
                self._channel,
                [each.collectives(total) for (each, _), total in zip(present, totals, strict=True)],
            )
        )
        return [
            None if gradient.value is None else _like(gradient.value, next(results))
            for gradient in gradients
        ]

    def settle(self, optimizer: Any) -> None:
        """Add what all ranks have added up to the optimizer's own sums, and drop it. Collective.

        Args:
            optimizer: As for `reduce`.
        """
        own = np.array(self.is_pending)
        if not allreduce("whether gradients were accumulated", own, "max"):
            return
        sums = list(self._sums.values())
        collectives = [each.collectives(each.value()) for each in sums]
        results = ExchangeSequence().exchange(self._channel, collectives)
        for each, result in zip(sums, results, strict=True):
            accumulator = accumulator_of(optimizer, each.variable)
            accumulator.assign_add(each.as_dense(result))
        self.forget()

    def _sum_of(self, variable: Any, gradient: LocalGradient) -> _Sum:
        kind = _SumOfSlices if isinstance(gradient.value, tf.IndexedSlices) else _DenseSum
        key = (id(variable), kind)
        if key not in self._sums:
            self._sums[key] = _outside_of_graphs(
                lambda: kind(variable, gradient.name, gradient.value, _OneUpdate(self._update))
            )
        return self._sums[key]


class _OneUpdate:
    """Whether a sum is of the current update, whose number is `current`; else it is nothing."""

    def __init__(self, current: tf.Variable) -> None:
        self._current, self._kept_for = current, _counter(-1)

    def is_current(self) -> tf.Tensor:
        return tf.equal(self._kept_for, self._current)

    def keep(self) -> None:
        self._kept_for.assign(self._current, read_value=False)


class _Sum(Protocol):
    """What this rank has added up of the gradients of one variable; a total is this and more."""

    variable: Any

    def __init__(self, variable: Any, name: str, gradient: Any, update: _OneUpdate) -> None: ...

    def value(self) -> Any: ...

    def plus(self, gradient: Any, weight: tf.Tensor) -> Any: ...

    def keep(self, total: Any) -> None: ...

    def collectives(self, total: Any) -> Any: ...

    def as_dense(self, result: Any) -> tf.Tensor: ...


class _DenseSum:
    def __init__(self, variable: Any, name: str, gradient: tf.Tensor, update: _OneUpdate) -> None:
        self.variable = variable
        self._name, self._update = name, update
        self._sum = tf.Variable(tf.zeros(variable.shape, gradient.dtype), trainable=False)

    def value(self) -> tf.Tensor:
        return tf.cond(
            self._update.is_current(),
            self._sum.read_value,
            lambda: tf.zeros(self._sum.shape, self._sum.dtype),
        )

    def plus(self, gradient: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
        # Not a number times 0 is 0 here: a rank without samples contributes nothing.
        return self.value() + tf.math.multiply_no_nan(gradient, tf.cast(weight, gradient.dtype))

    def keep(self, total: tf.Tensor) -> None:
        self._sum.assign(total, read_value=False)
        self._update.keep()

    def collectives(self, total: tf.Tensor) -> Allreduce:
        return Allreduce(self._name, total, one())

    def as_dense(self, result: tf.Tensor) -> tf.Tensor:
        return result


class _SumOfSlices:
    """Slices one after the other: their sum is formed by Keras, which has them all in the end."""

    def __init__(
        self, variable: Any, name: str, gradient: tf.IndexedSlices, update: _OneUpdate
    ) -> None:
        self.variable = variable
        self._name, self._update = name, update
        self._values = _empty_rows(variable.shape[1:], gradient.values.dtype)
        self._indices = _empty_rows([], gradient.indices.dtype)

    def value(self) -> tuple[tf.Tensor, tf.Tensor]:
        values, indices = self._values.read_value(), self._indices.read_value()
        num_rows = tf.where(self._update.is_current(), tf.shape(indices)[0], 0)
        return values[:num_rows], indices[:num_rows]

    def plus(self, gradient: tf.IndexedSlices, weight: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        num_rows = tf.shape(gradient.indices)[0]
        num_kept = tf.where(weight > 0, num_rows, 0)  # without samples there are no slices
        values = gradient.values * tf.cast(weight, gradient.values.dtype)
        own = values[:num_kept], gradient.indices[:num_kept]
        first, second = (tf.concat(pair, axis=0) for pair in zip(self.value(), own, strict=True))
        return first, second

    def keep(self, total: tuple[tf.Tensor, tf.Tensor]) -> None:
        self._values.assign(total[0], read_value=False)
        self._indices.assign(total[1], read_value=False)
        self._update.keep()

    def collectives(self, total: tuple[tf.Tensor, tf.Tensor]) -> tuple[Allgather, Allgather]:
        values, indices = total
        return (
            Allgather(f"{self._name}/values", values, one()),
            Allgather(f"{self._name}/indices", indices, one()),
        )

    def as_dense(self, result: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        values, indices = result
        return tf.math.unsorted_segment_sum(values, indices, self.variable.shape[0])


def _outside_of_graphs(make: Callable[[], _Made]) -> _Made:
    """Make variables where no graph is traced, in a thread of its own.

    A function in which they were made TensorFlow would trace twice, and refuse when it is traced
    for another size of the batch.
    """
    with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(make).result()


def _counter(value: int) -> tf.Variable:
    return tf.Variable(value, trainable=False, dtype=tf.int64)


def _empty_rows(shape: Any, dtype: tf.DType) -> tf.Variable:
    """Return a variable for any number of rows of a shape, which has none."""
    return tf.Variable(tf.zeros([0, *shape], dtype), trainable=False, shape=[None, *shape])


def _like(gradient: Gradient, result: Any) -> Gradient:
    if not isinstance(gradient, tf.IndexedSlices):
        return result
    return tf.IndexedSlices(*result, dense_shape=gradient.dense_shape)
