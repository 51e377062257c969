"""Make the weights of all ranks equal before training, and check them while it goes on."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.collectives.errors import DifferentInputError, DifferentWeightsError
from tnt_keras.collectives.messages import allgather, broadcast
from tnt_keras.collectives.replicas import compare_arrays, first_difference
from tnt_keras.keras_hooks.attributes import in_attributes
from tnt_keras.keras_hooks.private import all_layers, global_seed, has_global_seed
from tnt_keras.process.rank import MASTER_RANK, get_rank
from tnt_keras.step.optimizer_settings import require_same_optimizers
from tnt_keras.step.rank_draws import CommonSeeds

_NAME_ON_MASTER_RANK = "_tnt_name"
_NUM_IN_TURN = 4
_NUM_ENTRIES = 16


def replicated_variables(model: keras.Model) -> list[Any]:
    """Return all variables that must be equal on all ranks. Local.

    These are the model's weights, and the variables of the optimizers that it is known to use and
    those that they change.

    Args:
        model: A built distributed model.
    """
    optimizers = model._tnt_communication.optimizers
    variables = [*model.weights, *(v for optimizer in optimizers for v in optimizer.variables)]
    variables += model._tnt_communication.variables
    return list({id(variable): variable for variable in variables}.values())


def synchronize(model: keras.Model) -> None:
    """Give all ranks the weights, optimizer state and seeds of the master rank. Collective.

    Args:
        model: A built model.

    Raises:
        DifferentInputError: On all ranks, if the models differ in structure, or optimizers in
            their settings; names the first difference.
    """
    require_same_optimizers(model._tnt_communication.optimizers)
    variables = [*replicated_variables(model), *seed_states(model), *states_of_generators(model)]
    of_metrics = [variable for metric in model.metrics for variable in metric.variables]
    _check_same_structure([*variables, *of_metrics])
    if broadcast("whether Keras has a seed", np.array(has_global_seed())):
        variables.append(global_seed())
    for variable in variables:
        variable.assign(broadcast("weights of the master rank", _array(variable)))
    if model._tnt_communication.seeds is None:
        seed = np.array(1 + secrets.randbelow(2**31 - 1))
        model._tnt_communication.seeds = CommonSeeds(int(broadcast("seed", seed)))


def check_replicas(model: keras.Model) -> None:
    """Compare the weights of all ranks bit by bit, through checksums. Collective.

    Args:
        model: A built model.

    Raises:
        DifferentWeightsError: On all ranks, if a variable differs; names the first one and the
            ranks.
    """
    # Scalars first: another learning rate is the cause of other weights, which are many.
    variables = sorted(replicated_variables(model), key=lambda variable: len(variable.shape))
    difference = compare_arrays(
        "checksums of weights", (_array(variable) for variable in variables)
    )
    if difference is not None:
        name = name_of(variables[difference.index])
        raise DifferentWeightsError(
            f"Rank {get_rank()}: the variable {name!r} is not the same on all ranks: ranks "
            f"{difference.ranks} differ from rank {MASTER_RANK}. Training was stopped, since its "
            "results would be wrong. Does the step, a callback or other code change variables by "
            "other means than an optimizer, from the samples of one rank? Do ranks run different "
            "code?"
        )


def check_replicas_in_turn(model: keras.Model, variables: Sequence[Any], turn: int) -> None:
    """Compare some entries of a few variables, and all of all if they differ. Collective.

    That takes next to no time. What one rank changes by itself (its learning rate, say, or the
    weights that it restores) soon makes others differ, and so is found by one of the next steps.

    Args:
        model: A built model.
        variables: Its `replicated_variables`.
        turn: How often this was done before: other variables follow.

    Raises:
        DifferentWeightsError: As `check_replicas` does.
    """
    if not variables:
        return
    places = range(turn * _NUM_IN_TURN, (turn + 1) * _NUM_IN_TURN)
    arrays = [_array(variables[place % len(variables)]).reshape(-1) for place in places]
    own = b"".join(array[:: max(1, len(array) // _NUM_ENTRIES)].tobytes() for array in arrays)
    if len(set(allgather("some entries of the weights", own))) > 1:
        check_replicas(model)


def seed_states(model: keras.Model) -> list[Any]:
    """Return the states of the seed generators of all layers (of `Dropout`, say). Local.

    They are what a model has besides weights and metrics: pairs of a seed and a counter.

    Args:
        model: A built distributed model.
    """
    others = [*replicated_variables(model)]
    others += [variable for metric in model.metrics for variable in metric.variables]
    known = {id(variable) for variable in others}
    return [
        variable
        for variable in model.variables
        if id(variable) not in known
        and tuple(variable.shape) == (2,)
        and tf.as_dtype(variable.dtype).is_integer
    ]


def states_of_generators(model: keras.Model) -> list[tf.Variable]:
    """Return the states of TensorFlow's global generator and of those in layers. Local.

    Args:
        model: A built distributed model.
    """
    layers = all_layers(model)
    generators = [each for layer in layers for each in in_attributes(layer, tf.random.Generator)]
    with contextlib.suppress(RuntimeError):  # there is none if operations are deterministic
        generators.append(tf.random.get_global_generator())
    return list({id(each): each.state for each in generators}.values())


def _array(variable: Any) -> np.ndarray:
    return np.asarray(tf.convert_to_tensor(variable))


def name_of(variable: Any) -> str:
    """Return the name of a variable of Keras or TensorFlow: that of the master rank. Local.

    A process that has made other models before numbers its layers differently.

    Args:
        variable: Of a model, an optimizer or a metric.
    """
    own = str(getattr(variable, "path", variable.name))  # a `tf.Variable` has no path
    return str(getattr(variable, _NAME_ON_MASTER_RANK, own))


def _check_same_structure(variables: list[Any]) -> None:
    own = [[name_of(variable), list(variable.shape), str(variable.dtype)] for variable in variables]
    of_ranks = [
        json.loads(text) for text in allgather("structure of the model", json.dumps(own).encode())
    ]
    # Paths may differ, see `name_of`.
    difference = first_difference(
        [[shape_and_dtype for _, *shape_and_dtype in of_rank] for of_rank in of_ranks]
    )
    if difference is None:
        for variable, (name, *_) in zip(variables, of_ranks[MASTER_RANK], strict=True):
            if name != name_of(variable):
                setattr(variable, _NAME_ON_MASTER_RANK, name)
        return
    index, rank = difference.index, difference.ranks[0]
    of_master_rank, of_other = (
        _describe(of_ranks[each][index : index + 1]) for each in (MASTER_RANK, rank)
    )
    raise DifferentInputError(
        f"Rank {get_rank()}: the models of the ranks differ. Variable {index} is {of_master_rank} "
        f"on rank {MASTER_RANK} and {of_other} on rank {rank}. Every rank must build the same "
        "model."
    )


def _describe(variables: list[Any]) -> str:
    """Describe the variable in a list of one, or say that the list is empty."""
    if not variables:
        return "absent"
    [(path, shape, dtype)] = variables
    return f"{path!r} of shape {tuple(shape)} and dtype {dtype}"


def is_number(dtype: Any) -> bool:
    """Return whether a type is numeric or boolean, so that its values can be compared. Local.

    Args:
        dtype: Of a tensor or variable.
    """
    dtype = tf.as_dtype(dtype)
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_bool)
