"""Add up gradients on each rank over the steps of an update, and exchange them once.

With `gradient_accumulation_steps=k` Keras adds up the gradients of k steps in variables of the
optimizer, and in the k-th step applies their mean. A gradient of the batch is the sum over ranks of
what their rows give, so that

    sum_i g_i = sum_i sum_r g_ir = sum_r (sum_i g_ir),

and it is the inner sum that ranks exchange, in the k-th step alone: between updates the optimizer's
accumulators hold a partial sum on each rank. There are two functions for each shape of the batch,
with and without an update; which of them runs is known from the optimizer's counter.

Who is to see the accumulators as they are in the serial run calls `reduce_accumulated` before. All
ranks then hold the total; in the next step that of rank 0 is its partial sum, and those of others
are zero.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.current_call import on_one_rank
from tnt_keras.calls.messages import allreduce
from tnt_keras.calls.together import collective_call
from tnt_keras.keras_hooks.patch import MixinBase, add_mixin, plain_class, without_mixins
from tnt_keras.keras_hooks.private import accumulates_as_keras, accumulators_of, steps_of
from tnt_keras.partition import TracedStep
from tnt_keras.partition.graph import Decide, Edge
from tnt_keras.process.lanes import given_lanes
from tnt_keras.process.rank import is_master_rank, logger

# Not attributes of the optimizers, whose copies and files would contain them.
_of_optimizers: weakref.WeakKeyDictionary[Any, Accumulation] = weakref.WeakKeyDictionary()


class Accumulation:
    """What ranks add up for one optimizer, which is built and has `gradient_accumulation_steps`.

    `is_pending`: the variables hold a partial sum on each rank, else the total on all.
    """

    def __init__(self, optimizer: Any) -> None:
        self.variables = [each.value for each in accumulators_of(optimizer)]
        self.is_pending = False
        self._counter = steps_of(optimizer).value
        self.num_steps = int(optimizer.gradient_accumulation_steps)

    def begin_step(self) -> bool:
        """Prepare the accumulators for a step, and return whether it updates weights. Local."""
        if not self.is_pending and not is_master_rank():
            for variable in self.variables:
                variable.assign(tf.zeros_like(variable))
        self.is_pending = True
        return (int(self._counter.numpy()) + 1) % self.num_steps == 0

    def reduce(self) -> None:
        """Give all ranks the totals of their partial sums. Collective."""
        for variable in self.variables:
            variable.assign(allreduce("accumulated gradients", variable.numpy()))
        self.is_pending = False

    def branch(self, predicate: Edge, captured: dict[str, int], is_update: bool) -> bool | None:
        """Return which branch a `tf.cond` takes, None if the counter does not decide. Local.

        `captured` has the ids of the resources that the step uses, by names of its arguments.
        """
        counter = self.num_steps - 1 if is_update else 0
        known = {name for name, key in captured.items() if key == id(self._counter.handle)}
        value = _value_of(predicate, known, counter)
        return None if value is None else bool(value)


class Accumulations:
    """The accumulations of a step that was traced: of those optimizers where they are possible.

    An optimizer with a method of its own must see the gradients of each step, and so must a
    `LossScaleOptimizer` around one. Two applications in one step count as two. With lanes there are
    none: lanes are added up before steps, in every step, so that sums have one order.
    """

    def __init__(self, traced: TracedStep, optimizers: Sequence[Any]) -> None:
        names = [tensor.op.name for tensor in traced.graph.inputs[-len(traced.captures) :]]
        self._captured = dict(zip(names, map(id, traced.captures), strict=bool(traced.captures)))
        wrapped = [getattr(optimizer, "inner_optimizer", None) for optimizer in optimizers]
        self._all = [
            accumulation_of(optimizer)
            for optimizer in optimizers
            if given_lanes() is None
            and _accumulates(optimizer)
            and not any(optimizer is each for each in wrapped)
            and self._is_decided(traced, accumulation_of(optimizer))
        ]

    @property
    def variables(self) -> list[tf.Variable]:
        """The accumulators that hold a partial sum on each rank."""
        return [variable for each in self._all for variable in each.variables]

    def begin_step(self) -> tuple[bool, ...]:
        """Prepare a step, and return for each optimizer whether it updates weights. Local."""
        return tuple(each.begin_step() for each in self._all)

    def decide(self, are_updates: tuple[bool, ...]) -> Decide | None:
        """Return what decides on branches, for `partition.build`; None if there are none. Local."""
        if not self._all:
            return None

        def branch(node: Any) -> bool | None:
            taken = (
                each.branch(node.inputs[0], self._captured, is_update)
                for each, is_update in zip(self._all, are_updates, strict=True)
            )
            return next((each for each in taken if each is not None), None)

        return branch

    def _is_decided(self, traced: TracedStep, accumulation: Accumulation) -> bool:
        """Return whether only branches that the counter decides on use the accumulators."""
        own = {id(variable.handle) for variable in accumulation.variables}
        of_own = {name for name, key in self._captured.items() if key in own}
        users = [
            node
            for node in traced.flat.nodes
            if any(n.type == "Argument" and n.name in of_own for n, _ in node.inputs)
        ]
        return len(users) == 1 and (
            users[0].type in ("If", "StatelessIf")
            and accumulation.branch(users[0].inputs[0], self._captured, True) is not None
        )


class AccumulatingOptimizer(MixinBase):
    """Mixin for an optimizer whose accumulators may hold partial sums: for files and copies."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make a plain optimizer: `from_config` and copies ask for one of this class."""
        return plain_class(cls)(*args, **kwargs)

    def __reduce__(self) -> Any:
        """Copy and pickle as a plain Keras optimizer. Local."""
        with without_mixins(self):
            return self.__reduce__()

    def save_own_variables(self, store: Any) -> None:
        """Write the state as Keras does. Local, of a state that is equal on all ranks."""
        if _pending([self]):
            logger.warning(
                "The optimizer %r is saved or copied during gradient accumulation by one rank "
                "only, or without its model: the gradients since the last update are missing, "
                "since each rank accumulates its own. Call `model.save` or `model.save_weights`, "
                "or copy the model, on all ranks, or do it at the end of an epoch. "
                "[gradients-missing]",
                self.name,
            )
        super().save_own_variables(store)

    def load_own_variables(self, store: Any) -> None:
        """Read the state as Keras does: all ranks hold totals then. Local."""
        super().load_own_variables(store)
        note_totals(self)

    def set_weights(self, weights: Any) -> None:
        """Set the state as Keras does: all ranks hold totals then. Local."""
        super().set_weights(weights)
        note_totals(self)


def accumulation_of(optimizer: Any) -> Accumulation:
    """Return what ranks add up for an optimizer, made by the first call. Local."""
    if optimizer not in _of_optimizers:
        _of_optimizers[optimizer] = Accumulation(optimizer)
        add_mixin(optimizer, AccumulatingOptimizer)
    return _of_optimizers[optimizer]


def reduce_accumulated(optimizers: Sequence[Any]) -> None:
    """Give all ranks the totals of what they have added up for optimizers. Collective.

    Afterwards their variables are those of the serial run, in the middle of an update too. On a
    rank that runs alone, such as the master in a callback of its own, nothing is done.
    """
    if on_one_rank.get() is None:
        for accumulation in _pending(optimizers):
            accumulation.reduce()


def reduce_before_copy(optimizers: Sequence[Any]) -> None:
    """Reduce if something is pending: on all ranks, or on none. Collective then."""
    if _pending(optimizers):
        name = "copy in the middle of gradient accumulation"
        collective_call(name, is_local_alone=True)(reduce_accumulated)(optimizers)


def note_totals(optimizer: Any) -> None:
    """Note that the accumulators of an optimizer were set, to the same on all ranks. Local."""
    if optimizer in _of_optimizers:
        _of_optimizers[optimizer].is_pending = False


def pending_variables(optimizers: Sequence[Any]) -> list[tf.Variable]:
    """Return the accumulators that now hold a partial sum on each rank. Local."""
    return [variable for each in _pending(optimizers) for variable in each.variables]


def _pending(optimizers: Sequence[Any]) -> list[Accumulation]:
    known = [_of_optimizers[each] for each in optimizers if each in _of_optimizers]
    return [accumulation for accumulation in known if accumulation.is_pending]


def _accumulates(optimizer: Any) -> bool:
    """Return whether an optimizer adds up gradients by the methods of Keras alone."""
    cls: Any = plain_class(type(optimizer))
    return bool(
        getattr(optimizer, "gradient_accumulation_steps", None)
        and optimizer.built
        and accumulates_as_keras(cls)
        and cls.apply is keras.optimizers.Optimizer.apply
        and cls.apply_gradients is keras.optimizers.Optimizer.apply_gradients
        and len(accumulators_of(optimizer)) > 0
    )


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "Add": np.add,
    "AddV2": np.add,
    "Cast": lambda value: value,
    "Equal": np.equal,
    "FloorMod": np.mod,
    "Identity": lambda value: value,
}


def _value_of(edge: Any, counters: set[str], value: int) -> Any:
    """Return a number computed of a counter, before it changes, and constants alone; else None."""
    node, _ = edge
    if node.type == "Const":
        return tf.make_ndarray(node.attributes["value"])
    if node.type == "ReadVariableOp":
        is_first = all(each.type != "AssignAddVariableOp" for each in node.controls)
        return value if node.inputs[0][0].name in counters and is_first else None
    if node.type not in _OPERATIONS:
        return None
    operands = [_value_of(source, counters, value) for source in node.inputs]
    is_known = all(operand is not None for operand in operands)
    return _OPERATIONS[node.type](*operands) if is_known else None
