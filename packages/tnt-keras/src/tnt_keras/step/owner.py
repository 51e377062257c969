"""What the steps of one model or function have in common, how they compute, and whose step runs.

Optimizers are noticed that train outside of a step what ranks should train together: a training
loop of the user's own, or a plain Keras model that contains a distributed one, computes on each
rank what it is given there. Ranks share no gradients then, and drift apart.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import keras

from tnt_keras.calls.current_call import holding, user_line
from tnt_keras.exchange.step_exchange import StepChannels
from tnt_keras.keras_hooks.patch import plain_class
from tnt_keras.process.lanes import given_lanes
from tnt_keras.process.rank import settings
from tnt_keras.step.data_check import DataCheck
from tnt_keras.step.signature import BatchForms, Sizes


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How steps compute, as for `tnt.Model`."""

    fuses_batch_norm: bool = True
    batch_norm: str = "local"
    draws: str = "serial"
    check: bool = False


def default_options(**given: Any) -> StepOptions:
    """Return the options where some are given. Local."""
    return StepOptions(**{"check": settings().checks_steps, **given})


def given_options(
    fused_batch_norm: bool | None, batch_norm: str | None, draws: str | None, check: bool | None
) -> dict[str, Any]:
    """Return the attributes of `StepOptions` that a user has given, of words that exist. Local."""
    given = {"batch_norm": batch_norm, "draws": draws}
    for name, words in (("batch_norm", ("local", "global")), ("draws", ("serial", "local"))):
        if given[name] not in (None, *words):
            raise ValueError(
                f"`{name}` must be one of {', '.join(words)}. Received: {name}={given[name]!r}."
            )
    if draws == "local" and given_lanes() is not None:
        raise ValueError(
            'With lanes the random numbers are those of the serial run: draws="local" gives each '
            f"rank its own. Received: draws='local' and {given_lanes()} lanes. Leave `draws` out."
        )
    options = {"fuses_batch_norm": fused_batch_norm, **given, "check": check}
    return {name: value for name, value in options.items() if value is not None}


class StepOwner:
    """What the steps of one model or function share, and what ranks hold alike because of them."""

    def __init__(self, options: StepOptions, model: Any = None) -> None:
        self.options = options
        self.model = model  # None for a function
        self.optimizers: list[Any] = []  # the compiled one, and those seen in steps
        self.variables: list[Any] = []  # `tf.Variable`s that steps were seen to use
        self.are_synchronized: dict[int, Any] = {}  # by the identity of the `tf.Variable`
        self.own_logs: Any = None  # of this rank's samples, if asked for
        self.has_other_rows = False  # a batch had parts without a row for each sample
        self.is_synchronized = False  # with the master, then only changed by all ranks' steps
        self.num_checks = 0  # of some variables, before single steps
        self.num_fits = 0  # calls of `fit`
        self.sizes_of_former_run: dict[str, list[Sizes]] = {}
        self._forms: dict[str, BatchForms] = {}
        self._channels: dict[str, StepChannels] = {}
        self._data_check: DataCheck | None = None

    def data_check(self) -> DataCheck:
        """Return the data check, which the first call makes. Collective the first time."""
        if self._data_check is None:
            self._data_check = DataCheck()
        return self._data_check

    def new_forms(self, kind: str) -> BatchForms:
        """Return the forms of batches of one kind, as a former run has left them. Local."""
        self._forms[kind] = BatchForms(self.sizes_of_former_run.get(kind, ()))
        return self._forms[kind]

    def sizes_seen(self) -> dict[str, list[Sizes]]:
        """Return the sizes of the batches for which forms were chosen, by their kind. Local."""
        seen = {kind: forms.seen for kind, forms in self._forms.items()}
        return self.sizes_of_former_run | seen

    def channels(self, name: str) -> StepChannels:
        """Return what all graphs of a step exchange by. Local."""
        if name not in self._channels:
            self._channels[name] = StepChannels(name)
        return self._channels[name]

    def add_optimizer(self, optimizer: Any) -> None:
        """Add an optimizer to the list, unless it is there. Local."""
        if not any(optimizer is known for known in self.optimizers):
            self.optimizers.append(optimizer)

    def add_variables(self, variables: Any) -> None:
        """Add variables to the list, unless they are there. Local."""
        known = {id(variable) for variable in self.variables}
        self.variables += [variable for variable in variables if id(variable) not in known]


_current: ContextVar[StepOwner | None] = ContextVar("tnt_step", default=None)


def is_inside_step() -> bool:
    """Return whether this thread traces or runs a step of all ranks. Local."""
    return _current.get() is not None


def step_scope(owner: StepOwner) -> contextlib.AbstractContextManager[None]:
    """Take what runs in a with-block for a step of all ranks. Local."""
    return holding(_current, owner)


_REMEDY = (
    "so each rank trains alone, and results are not those of the serial run. Put the step into a "
    "function with `@tnt.function`, as in `@tnt.function def train_step(x, y): ...`, and call it "
    "with each batch."
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
        owner = _current.get()
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
        raise RuntimeError(
            f"{user_line()}: An optimizer was applied while an iterator of "
            f"`tnt.data.distribute(...)` is in use, but outside a step of all ranks, {_REMEDY} If "
            "it is meant to train on each rank alike, do that when the loop has ended."
        )
    changed = {id(variable) for variable in variables}
    for model in models:
        if changed & {id(variable) for variable in model.trainable_variables}:
            raise RuntimeError(
                f"{user_line()}: An optimizer trains the distributed model {model.name!r} outside "
                f"a step of all ranks, {_REMEDY}"
            )
    _looked_at[optimizer] = seen
