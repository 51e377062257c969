"""Prepare a model for its first step on several ranks: its variables, and equal weights."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.keras_hooks.private import all_layers, has_keras_methods
from tnt_keras.process.rank import get_size
from tnt_keras.step.accumulation import reduce_accumulated
from tnt_keras.step.owner import step_scope
from tnt_keras.step.replicas import (
    check_replicas_in_turn,
    generator_states,
    set_generator_states,
    synchronize,
    use_generators_of_master,
)


def split_arguments(
    method: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the arguments of a call that its method names, and all that Keras knows. Local."""
    bound = inspect.signature(method).bind(*args, **kwargs)
    bound.apply_defaults()
    given = {name: value for name, value in bound.arguments.items() if name != "self"}
    more = given.pop("kwargs", {})
    own = {name for name in given if name.startswith("tnt_")} | {"verify_inputs"}
    return given, {name: given[name] for name in given.keys() - own} | more


def check_compiled(model: Any, method: str) -> None:
    """Refuse a model that is not compiled. Local."""
    if not model.compiled:
        raise ValueError(f"Call `compile()` before `{method}()`: the model has no loss yet.")


def switches(model: Any) -> dict[str, Any]:
    """Return by name what decides how steps run and what they train, equal on all ranks. Local."""
    kinds = ("train", "test", "predict")
    made = [kind for kind in kinds if getattr(model, f"{kind}_function") is not None]
    return {
        "run_eagerly": model.run_eagerly,
        "jit_compile": bool(model.jit_compile),
        "steps_per_execution": model.steps_per_execution,
        "steps that ran since compile()": made,
        # One rank may have built its model before, but none trains it alone.
        "number of trainable variables": len(model.trainable_variables) if model.built else None,
    }


def prepare_steps(model: Any) -> None:
    """Give all ranks the master's weights before the steps of a call. Collective.

    What is made in the first step gets the master's values there.
    """
    if get_size() == 1:
        return
    reduce_accumulated(model._tnt_owner.optimizers)
    synchronize(model._tnt_owner)
    if model.run_eagerly:
        use_generators_of_master(with_seed=True)
    model._tnt_owner.is_synchronized = True


def prepare_single_step(model: Any) -> None:
    """Give all ranks the master's weights before a single step, unless it was done. Collective.

    If it was, some weights are compared: other code may run between two single steps.
    """
    if get_size() > 1 and model._tnt_owner.is_synchronized:
        check_replicas_in_turn(model._tnt_owner)
    else:
        prepare_steps(model)


def build_optimizer(model: keras.Model) -> None:
    """Create the variables of the optimizer before Keras' own `train_step` does so. Local.

    A step that does so is traced twice, since Python may go another way with them.
    """
    if model.optimizer is None or model.optimizer.built:
        return
    if has_keras_methods(model, "train_step") and all(each.built for each in all_layers(model)):
        model.optimizer.build(model.trainable_weights)


def build_by_tracing(model: keras.Model, step_name: str, element_spec: Any) -> None:
    """Create the variables that a step creates when it is traced for the first time. Local.

    Keras makes weights of unbuilt models, metrics and optimizer states in the first trace, and what
    restores them needs them before. The trace is thrown away: nothing is computed, so no random
    state advances, and what the step counts in Python is put back.
    """
    if step_name == "train_step" and has_keras_methods(model, "train_step", "test_step"):
        # It creates the same variables and is traced in a fraction of the time. (The optimizer
        # makes its own when it is first used; they are equal on all ranks.)
        step_name = "test_step"
    # Layers that are not built yet may note sizes now.
    counting = [model, *(layer for layer in all_layers(model) if layer.built)]
    remaining = [getattr(model, step_name)]

    def first_trace(element: Any) -> None:
        if remaining:  # new variables cause another trace
            remaining.pop()(element)

    with kept_in_python(counting), step_scope(model._tnt_owner):
        tf.function(first_trace, autograph=False).get_concrete_function(element_spec)


@contextlib.contextmanager
def kept_in_python(objects: Iterable[Any] = ()) -> Iterator[None]:
    """Put back after a with-block the generators of Python, and numbers and strings of objects.

    Truth values and None are not put back: by them Keras notes what it has built. A number that the
    class of an object holds is seen again.
    """
    states, before = generator_states(), []
    for each in objects:
        held = vars(each).items()
        before.append((each, {k: v for k, v in held if isinstance(v, str) or _is_number(v)}))
    try:
        yield
    finally:
        set_generator_states(states)
        for each, kept in before:
            for name, value in list(vars(each).items()):
                if _is_number(value) and name not in kept and hasattr(type(each), name):
                    del vars(each)[name]
            vars(each).update(kept)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
