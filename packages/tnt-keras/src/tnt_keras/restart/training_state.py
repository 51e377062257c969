"""All that decides how a training goes on, as plain values."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tnt_keras.callbacks.ranks import is_writer
from tnt_keras.calls.agree import first_difference
from tnt_keras.calls.messages import allgather, allgather_json
from tnt_keras.keras_hooks.private import global_seed, has_global_seed, in_attributes
from tnt_keras.process.rank import MASTER_RANK, get_rank, is_master_rank, logger
from tnt_keras.restart.backup_files import (
    NotPlainError,
    digest_of,
    is_plain,
    is_variable,
    packed,
    unpacked,
)
from tnt_keras.step import replicas
from tnt_keras.step.accumulation import note_totals, reduce_accumulated
from tnt_keras.step.replicas import generator_states
from tnt_keras.step.signature import Sizes

_GET, _SET = "get_backup_state", "set_backup_state"


@dataclasses.dataclass
class Progress:
    """How far a `fit` has come.

    An execution is one call of the function that Keras makes of a step: one step, or several with
    `steps_per_execution`.
    """

    epoch: int = 0  # that runs, or else the next one
    finished: list[int] = dataclasses.field(default_factory=list)  # executions by epoch
    executions: int = 0  # so far in the epoch that runs
    validated: list[int] = dataclasses.field(default_factory=list)  # executions by validation
    stops: bool = False
    logs: Any = None  # of the last step of the epoch that runs
    batch_size: int | None = None  # of the global batch

    @property
    def is_within_epoch(self) -> bool:
        """Whether an epoch has begun and not ended."""
        return self.executions > 0


class CallbackState:
    """What changes in one callback from the begin of training on. Creation and methods are local.

    It is what `get_backup_state()` of the callback returns, and `set_backup_state(state)` is given,
    if it has these methods; otherwise every attribute whose value is another one than after
    `on_train_begin`. Others, such as `patience`, are those of the script also after a restart.
    """

    def __init__(self, callback: keras.callbacks.Callback) -> None:
        self.class_name = type(callback).__qualname__
        self._callback = callback
        self._has_methods = all(callable(getattr(callback, name, None)) for name in (_GET, _SET))
        attributes = {} if self._has_methods else vars(callback)
        self._first = {name: digest_of(value) for name, value in attributes.items()}
        self._named: set[str] = set()  # attributes that a warning has named

    def save(self) -> bytes:
        """Return what has changed."""
        state = getattr(self._callback, _GET)() if self._has_methods else self._changed()
        try:
            return packed((self.class_name, state))
        except NotPlainError as error:
            raise TypeError(
                f"{self.class_name}.{_GET}() must return None, numbers, texts, arrays, or lists, "
                f"tuples, sets and dicts of these. It contains: {error}."
            ) from None

    def fits(self, saved: bytes) -> bool:
        """Return whether a state is that of a callback of the same class."""
        return bool(unpacked(saved)[0] == self.class_name)

    def restore(self, saved: bytes) -> None:
        """Give the callback what `save` has returned in another process."""
        _, state = unpacked(saved)
        if self._has_methods:
            getattr(self._callback, _SET)(state)
            return
        for name, value in state.items():
            present: Any = getattr(self._callback, name, None)
            if is_variable(present):
                present.assign(value)
            else:
                setattr(self._callback, name, value)

    def _changed(self) -> dict[str, Any]:
        changed = {
            name: value
            for name, value in vars(self._callback).items()
            if name not in self._first or _differ(self._first[name], digest_of(value))
        }
        plain = {name: value for name, value in changed.items() if is_plain(value)}
        for name in (name for name in changed if name not in plain):
            self._warn(name)
        return plain

    def _warn(self, name: str) -> None:
        """Warn of an attribute that a backup cannot hold, once and if it may decide anything."""
        is_of_keras = type(self._callback).__module__.partition(".")[0] == "keras"
        if is_of_keras or is_writer(self._callback) or name in self._named:
            return
        self._named.add(name)
        logger.warning(
            "The attribute %r of the callback %s has changed and is not a plain value, so backups "
            "leave it out: a restart begins with its initial value. If the training depends on "
            "it, give the class the methods `%s()` and `%s(state)`. [not-in-backup]",
            name,
            self.class_name,
            _GET,
            _SET,
        )


def _differ(first: Any, second: Any) -> bool:
    are_digests = isinstance(first, bytes) and isinstance(second, bytes)
    return first != second if are_digests else first is not second


@dataclasses.dataclass(frozen=True)
class SavedState:
    """The state of a training in a backup, as one rank sees it."""

    fit_number: int  # of the model, from 0
    steps_per_execution: int
    progress: Progress
    has_global_seed: bool  # Keras had a seed for functions without one
    variables: list[list[Any]]  # name, shape and dtype of each
    values: list[np.ndarray[Any, Any]]
    first_generators: dict[str, Any]  # states of random generators when the training began
    generators: dict[str, Any]  # those when the backup was written
    callbacks: list[bytes]  # from `CallbackState.save`
    sizes: dict[str, list[Sizes]]  # from `StepOwner.sizes_seen`

    @classmethod
    def of_backup(cls, backup: dict[str, Any]) -> SavedState:
        """Return what `TrainingState.save` has returned. Local.

        A rank that the former run did not have gets what the master rank had.
        """
        of_ranks = backup.pop("parts")
        of_master = of_ranks[MASTER_RANK]
        own = of_ranks[get_rank()] if get_rank() < len(of_ranks) else of_master
        parts = [of_master[place] if part is None else part for place, part in enumerate(own)]
        generators = unpacked(parts[0])
        return cls(
            **{**backup, "progress": Progress(**backup["progress"])},
            first_generators=generators["first"],
            generators=generators["now"],
            callbacks=parts[1:],
        )


class TrainingState:
    """The state of a model in training, its callbacks after `on_train_begin`, and generators."""

    def __init__(
        self, model: Any, callbacks: Sequence[keras.callbacks.Callback], fit_number: int
    ) -> None:
        self._model = model
        self._callbacks = [CallbackState(callback) for callback in callbacks]
        self._fit_number = fit_number
        self.first_generators = generator_states()
        self._new: set[str] = set()  # classes of callbacks that a warning has named

    def save(self, progress: Progress) -> dict[str, Any]:
        """Return the state for a file; that of the master rank is complete. Collective."""
        reduce_accumulated(self._model._tnt_owner.optimizers)  # the same with and without a restart
        generators = {"first": self.first_generators, "now": generator_states()}
        parts = [packed(generators), *(callback.save() for callback in self._callbacks)]
        variables = variables_of(self._model)
        return {
            "fit_number": self._fit_number,
            "steps_per_execution": self._model.steps_per_execution,
            "progress": dataclasses.asdict(progress),
            "has_global_seed": has_global_seed(),
            "variables": replicas.describe(variables),
            "values": [replicas.array_of(each) for each in variables] if is_master_rank() else [],
            "sizes": self._model._tnt_owner.sizes_seen(),
            "parts": _gather_parts(parts),
        }

    def restore_callbacks(self, saved: SavedState) -> None:
        """Give the callbacks what those of the same class had, one after the other. Local."""
        remaining = list(saved.callbacks)
        for callback in self._callbacks:
            state = next((each for each in remaining if callback.fits(each)), None)
            if state is not None:
                remaining.remove(state)
                callback.restore(state)
            elif callback.class_name not in self._new:
                self._new.add(callback.class_name)
                logger.warning(
                    "The backup has no state for the callback %s, which starts afresh. Pass `fit` "
                    "the callbacks of the run that you continue. [callback-begins-anew]",
                    callback.class_name,
                )


def restore_variables(model: Any, saved: SavedState) -> None:
    """Give the variables of a model, the same as in the backup, the values that they had. Local."""
    if saved.has_global_seed:
        global_seed()
    variables = variables_of(model)
    if has_global_seed() and not saved.has_global_seed:
        variables = [variable for variable in variables if variable is not global_seed()]
    _check_same_structure(replicas.describe(variables), saved.variables)
    for variable, value in zip(variables, saved.values, strict=True):
        variable.assign(value)
    for optimizer in model._tnt_owner.optimizers:
        note_totals(optimizer)
    model._tnt_owner.sizes_of_former_run = saved.sizes


def _check_same_structure(own: list[list[Any]], saved: list[list[Any]]) -> None:
    """Compare variables but for their names: a process may number its layers differently."""
    difference = first_difference([[each[1:] for each in variables] for variables in (own, saved)])
    if difference is not None:
        number, _ = difference
        in_backup, in_model = (replicas.shown(each, number) for each in (saved, own))
        raise ValueError(
            f"The backup does not fit the model: variable {number} is {in_backup} in the backup "
            f"and {in_model} in the model. Continue with the model, optimizer and metrics that "
            "the run began with, or remove the backup to start from the beginning."
        )


def _gather_parts(own: list[bytes]) -> list[list[bytes | None]]:
    """Return on the master the parts of each rank, None for those that it has too. Collective."""
    digests = [hashlib.sha256(part).hexdigest() for part in own]
    of_master = allgather_json("parts", digests)[MASTER_RANK]
    differing = [
        part if digest not in of_master[place : place + 1] else None
        for place, (part, digest) in enumerate(zip(own, digests, strict=True))
    ]
    sent = allgather("differing parts", packed(differing))
    return [list(own), *map(unpacked, sent[1:])]


def variables_of(model: keras.Model) -> list[Any]:
    """Return the variables of a model that a backup holds, each once, equal on all ranks. Local.

    These are weights, optimizers with all that they remember, metrics, seeds of layers, states of
    TensorFlow's generators, `tf.Variable`s of layers, and Keras' seed for functions without one.
    """
    optimizers = in_attributes(model, keras.optimizers.Optimizer)  # the compiled one, too
    # A model's own `metrics` may leave out some of Keras.
    metrics = {id(each): each for each in (*model.metrics, *keras.Model.metrics.fget(model))}
    variables = [
        *replicas.replicated_variables(model._tnt_owner),
        *model.variables,
        *(each for owner in (*optimizers, *metrics.values()) for each in owner.variables),
        *replicas.tensorflow_variables(model),
        *replicas.states_of_generators(model),
        *([global_seed()] if has_global_seed() else []),
    ]
    unique: dict[int, Any] = {}
    for variable in variables:
        unique.setdefault(id(replicas.backing(variable)), variable)
    return list(unique.values())
