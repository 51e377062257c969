"""All that decides how a training goes on, as JSON and arrays."""

from __future__ import annotations

import dataclasses
import hashlib
import io
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from tnt_keras.calls.agree import first_difference
from tnt_keras.calls.messages import allgather, allgather_json
from tnt_keras.keras_hooks.attributes import in_attributes
from tnt_keras.keras_hooks.private import global_seed, has_global_seed
from tnt_keras.process.output import logger
from tnt_keras.process.rank import MASTER_RANK, get_rank, is_master_rank
from tnt_keras.restart.callback_states import CallbackState
from tnt_keras.restart.plain_values import decode, encode, read_container, write_container
from tnt_keras.restart.position import Progress
from tnt_keras.step.accumulation import note_totals, settle
from tnt_keras.step.batch_forms import Sizes
from tnt_keras.step.generators import generator_states
from tnt_keras.step.variables import (
    array_of,
    backing,
    describe,
    replicated_variables,
    shown,
    states_of_generators,
    tensorflow_variables,
)

_Arrays = list[np.ndarray[Any, Any]]


@dataclasses.dataclass(frozen=True)
class SavedState:
    """The state of a training in a backup, as one rank sees it."""

    fit_number: int  # of the model, from 0
    steps_per_execution: int
    progress: Progress
    has_global_seed: bool  # Keras had a seed for functions without one
    variables: list[list[Any]]  # name, shape and dtype of each
    values: _Arrays
    first_generators: dict[str, Any]  # states of random generators when the training began
    generators: dict[str, Any]  # those when the backup was written
    callbacks: list[bytes]  # from `CallbackState.save`
    sizes: dict[str, list[Sizes]]  # from `StepOwner.sizes_seen`

    @classmethod
    def of_file(cls, content: dict[str, Any], arrays: _Arrays) -> SavedState:
        """Return what `TrainingState.save` has made JSON and arrays of. Local.

        A rank that the former run did not have gets what the master rank had.
        """
        num_variables, of_ranks = len(content["variables"]), content["parts"]
        places = of_ranks[get_rank() if get_rank() < len(of_ranks) else MASTER_RANK]
        parts = [arrays[num_variables + place].tobytes() for place in places]
        generators = decode(*read_container(io.BytesIO(parts[0])))
        return cls(
            content["fit"],
            content["steps_per_execution"],
            Progress(**decode(content["progress"], arrays)),
            content["has_global_seed"],
            content["variables"],
            arrays[:num_variables],
            generators["first"],
            generators["now"],
            parts[1:],
            {
                kind: [tuple(each) for each in seen]
                for kind, seen in content.get("sizes", {}).items()
            },
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

    def save(self, progress: Progress) -> tuple[dict[str, Any], _Arrays]:
        """Return the state for a file; that of the master rank is complete. Collective."""
        settle(self._model._tnt_owner.optimizers)  # the same with and without a restart
        generators = {"first": self.first_generators, "now": generator_states()}
        parts = [_packed(generators), *(callback.save() for callback in self._callbacks)]
        places, parts = _gather_parts(parts)
        variables = variables_of(self._model)
        arrays: _Arrays = []
        if is_master_rank():
            arrays = [array_of(each) for each in variables] + [
                np.frombuffer(part, np.uint8) for part in parts
            ]
        content = {
            "fit": self._fit_number,
            "steps_per_execution": self._model.steps_per_execution,
            "progress": encode(dataclasses.asdict(progress), arrays),
            "has_global_seed": has_global_seed(),
            "variables": describe(variables),
            "parts": places,
            "sizes": self._model._tnt_owner.sizes_seen(),
        }
        return content, arrays

    def restore_callbacks(self, saved: SavedState) -> None:
        """Give the callbacks what those of the same class had, one after the other. Local."""
        remaining = list(saved.callbacks)
        for callback in self._callbacks:
            state = next((each for each in remaining if callback.fits(each)), None)
            if state is None:
                self._warn_of_new(callback.class_name)
            else:
                remaining.remove(state)
                callback.restore(state)

    def _warn_of_new(self, class_name: str) -> None:
        if class_name not in self._new:
            self._new.add(class_name)
            logger.warning(
                "The backup has no state for the callback %s, which begins anew. Give `fit` the "
                "callbacks of the run that is to be continued.",
                class_name,
            )


def restore_variables(model: Any, saved: SavedState) -> None:
    """Give the variables of a model, the same as in the backup, the values that they had. Local."""
    if saved.has_global_seed:
        global_seed()
    variables = variables_of(model)
    if has_global_seed() and not saved.has_global_seed:
        variables = [variable for variable in variables if variable is not global_seed()]
    _check_same_structure(describe(variables), saved.variables)
    for variable, value in zip(variables, saved.values, strict=True):
        variable.assign(value)
    for optimizer in model._tnt_owner.optimizers:
        note_totals(optimizer)
    model._tnt_owner.sizes_of_former_run = saved.sizes


def _check_same_structure(own: list[list[Any]], saved: list[list[Any]]) -> None:
    """Compare variables but for their names: a process may number its layers differently."""
    difference = first_difference([[each[1:] for each in variables] for variables in (own, saved)])
    if difference is not None:
        number = difference.index
        raise ValueError(
            f"The backup does not fit to the model: variable {number} is {shown(saved, number)} in "
            f"the backup and {shown(own, number)} in the model. Continue with the model, optimizer "
            "and metrics that the run began with, or remove the backup to begin anew."
        )


def _gather_parts(own: list[bytes]) -> tuple[list[list[int]], list[bytes]]:
    """Return the places of all parts in a list without repetitions, and the list. Collective.

    What the master has is not sent. On other ranks the list lacks the master's parts.
    """
    digests = [hashlib.sha256(part).hexdigest() for part in own]
    of_ranks = allgather_json("parts", digests)
    of_master = of_ranks[MASTER_RANK]
    differing = [
        np.frombuffer(part, np.uint8)
        for number, part in enumerate(own)
        if number >= len(of_master) or digests[number] != of_master[number]
    ]
    stream = io.BytesIO()
    write_container(stream, None, differing)
    sent = allgather("differing parts", stream.getvalue())
    parts = list(own) if is_master_rank() else [b""] * len(of_master)
    places = []
    for digests_of_rank, message in zip(of_ranks, sent, strict=True):
        _, arrays = read_container(io.BytesIO(message))
        found = []
        for number, digest in enumerate(digests_of_rank):
            if number < len(of_master) and digest == of_master[number]:
                found.append(number)
            else:
                found.append(len(parts))
                parts.append(arrays.pop(0).tobytes())
        places.append(found)
    return places, parts


def _packed(value: Any) -> bytes:
    arrays: _Arrays = []
    encoded = encode(value, arrays)
    stream = io.BytesIO()
    write_container(stream, encoded, arrays)
    return stream.getvalue()


def variables_of(model: keras.Model) -> list[Any]:
    """Return the variables of a model that a backup holds, each once, equal on all ranks. Local.

    These are weights, optimizers with all that they remember, metrics, seeds of layers, states of
    TensorFlow's generators, `tf.Variable`s of layers, and Keras' seed for functions without one.
    """
    variables = [*replicated_variables(model._tnt_owner), *model.variables]
    optimizers = in_attributes(model, keras.optimizers.Optimizer)  # the compiled one, too
    variables += [each for optimizer in optimizers for each in optimizer.variables]
    variables += [each for metric in _all_metrics(model) for each in metric.variables]
    variables += tensorflow_variables(model)
    variables += states_of_generators(model)
    if has_global_seed():
        variables.append(global_seed())
    unique: dict[int, Any] = {}
    for variable in variables:
        unique.setdefault(id(backing(variable)), variable)
    return list(unique.values())


def build_optimizer(model: keras.Model) -> None:
    """Make the variables of the compiled optimizer. Local."""
    optimizer = model.optimizer
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)


def _all_metrics(model: keras.Model) -> list[Any]:
    """Return the metrics of a model, also those that its own `metrics` leaves out."""
    metrics = [*model.metrics, *keras.Model.metrics.fget(model)]
    return list({id(metric): metric for metric in metrics}.values())
