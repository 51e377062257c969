"""Notice optimizers that train outside of a step what ranks should train together.

A training loop of the user's own, or a plain Keras model that contains a distributed one, computes
on each rank what it is given there: ranks share no gradients, and drift apart.
"""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import keras

from tnt_keras.calls.current_call import user_line
from tnt_keras.keras_hooks.patch import plain_class
from tnt_keras.step.owner import current_owner

_REMEDY = (
    "so that each rank trains on its own and results are not those of the serial run. Put the step "
    "into a function with `@tnt.function`, as in `@tnt.function def train_step(x, y): ...`, and "
    "call it with each batch."
)

_models: weakref.WeakSet[keras.Model] = weakref.WeakSet()
_num_loops = 0
_plain_apply: Callable[..., Any] | None = None
# How many distributed models and loops there were when an optimizer was looked at: once for each.
_looked_at: weakref.WeakKeyDictionary[Any, tuple[int, int]] = weakref.WeakKeyDictionary()


def notice_own_loops(model: keras.Model) -> None:
    """Have it noticed if something else than its steps trains a distributed model. Local.

    When the last distributed model is gone, optimizers are those of Keras again.
    """
    _replace_apply()
    if model not in _models:
        _models.add(model)
        weakref.finalize(model, _restore_if_unused)


@contextlib.contextmanager
def loop_over_parts() -> Iterator[None]:
    """Notice in a with-block, where a loop has local rows, optimizers outside of steps. Local."""
    global _num_loops
    _replace_apply()
    _num_loops += 1
    try:
        yield
    finally:
        _num_loops -= 1
        _restore_if_unused()


def _replace_apply() -> None:
    global _plain_apply
    if _plain_apply is None:
        _plain_apply = keras.optimizers.Optimizer.apply
        keras.optimizers.Optimizer.apply = _noticing(_plain_apply)


def _restore_if_unused() -> None:
    global _plain_apply
    if _plain_apply is not None and not _num_loops and all(model is None for model in _models):
        keras.optimizers.Optimizer.apply = _plain_apply
        _plain_apply = None


def _noticing(plain_apply: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain_apply)
    def apply(optimizer: Any, grads: Any, trainable_variables: Any = None) -> Any:
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
        owner = current_owner()
        if owner is None:
            _notice(optimizer, trainable_variables or [])
        else:
            owner.add_optimizer(optimizer)
        return plain_apply(optimizer, grads, trainable_variables)

    return apply


def _notice(optimizer: Any, variables: list[Any]) -> None:
    # Not those that are taken for plain ones just now.
    models = [model for model in _models if plain_class(type(model)) is not type(model)]
    seen = len(models), _num_loops
    if _looked_at.get(optimizer) == seen:
        return
    if _num_loops:
        _report(
            "An optimizer was applied while an iterator of `tnt.data.distribute(...)` is in use, "
            f"but outside of a step of all ranks, {_REMEDY} If it is meant to train on each rank "
            "alike, do that when the loop has ended."
        )
    _look_at(models, variables)
    _looked_at[optimizer] = seen


def _look_at(models: list[keras.Model], variables: list[Any]) -> None:
    changed = {id(variable) for variable in variables}
    for model in models:
        if changed & {id(variable) for variable in model.trainable_variables}:
            _report(
                f"An optimizer trains the distributed model {model.name!r} outside of a step of "
                f"all ranks, {_REMEDY}"
            )


def _report(text: str) -> None:
    raise RuntimeError(f"{user_line()}: {text}")
