"""What all ranks hold alike: variables of replicas, and the generators that Python draws from."""

from __future__ import annotations

import contextlib
import hashlib
import random
import secrets
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import first_difference, of_master, require_same
from tnt_keras.calls.errors import of_all_ranks
from tnt_keras.calls.messages import allgather, broadcast
from tnt_keras.keras_hooks.private import all_layers, global_seed, has_global_seed, in_attributes
from tnt_keras.process.rank import MASTER_RANK, get_rank
from tnt_keras.step.accumulation import pending_variables
from tnt_keras.step.owner import StepOwner
from tnt_keras.step.settings import require_same_optimizers

_NAME_ON_MASTER_RANK = "_tnt_name"
_NUM_IN_TURN = 4
_NUM_ENTRIES = 16
_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


def replicated_variables(owner: StepOwner) -> list[Any]:
    """Return all variables that must be equal on all ranks, each once. Local.

    These are the weights of the model, the variables of optimizers, and whatever else steps read or
    change; neither metrics, nor sums of gradients of which each rank has a partial sum.
    """
    of_model = [] if owner.model is None else owner.model.weights
    of_optimizers = [each for optimizer in owner.optimizers for each in optimizer.variables]
    left_out = [*metric_variables(owner), *pending_variables(owner.optimizers)]
    found: dict[int, Any] = {}
    for variable in [*of_model, *of_optimizers, *owner.variables]:
        found.setdefault(id(backing(variable)), variable)
    for variable in left_out:
        found.pop(id(backing(variable)), None)
    return list(found.values())


def synchronize(owner: StepOwner) -> None:
    """Give all ranks the weights, optimizer state and seeds of the master rank. Collective."""
    require_same_optimizers(owner.optimizers)
    variables = [*replicated_variables(owner), *metric_variables(owner)]
    if owner.model is not None:
        known = {id(backing(variable)) for variable in variables}
        others = [each for each in owner.model.variables if id(backing(each)) not in known]
        variables += [*filter(_is_seed_state, others), *states_of_generators(owner.model)]
    if _require_same_structure(variables):
        variables.append(global_seed())
    _give_values_of_master(variables)
    owner.are_synchronized.update((id(backing(each)), each) for each in variables)


def synchronize_new(owner: StepOwner, used: Sequence[Any]) -> None:
    """Give all ranks the master's values of what a step uses and they do not share. Collective."""
    owner.add_variables(used)
    new = {id(backing(v)): v for v in (*used, *replicated_variables(owner))}
    new = {key: variable for key, variable in new.items() if key not in owner.are_synchronized}
    _require_same_structure(list(new.values()))
    _give_values_of_master(list(new.values()))
    owner.are_synchronized.update(new)


def backing(variable: Any) -> Any:
    """Return the `tf.Variable` that a variable of Keras or TensorFlow is. Local."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def check_replicas(owner: StepOwner) -> None:
    """Compare the weights of all ranks bit by bit, through checksums. Collective."""
    # Scalars first: another learning rate is the cause of other weights, which are many.
    variables = sorted(replicated_variables(owner), key=lambda v: tf.TensorShape(v.shape).rank or 0)
    own = b"".join(_digest(array_of(variable)) for variable in variables)
    places = range(0, len(own), _DIGEST_BYTES)
    of_ranks = allgather("checksums of weights", own)
    difference = first_difference(
        [[one[i : i + _DIGEST_BYTES] for i in places] for one in of_ranks]
    )
    if difference is not None:
        index, ranks = difference
        text = (
            f"Rank {get_rank()}: the variable {name_of(variables[index])!r} is not the same on all "
            f"ranks: ranks {ranks} differ from rank {MASTER_RANK}. Training was stopped, since its "
            "results would be wrong. Does a callback or other code change variables outside of a "
            "step, on one rank or differently on each?"
        )
        raise of_all_ranks(RuntimeError(text))


def check_replicas_in_turn(owner: StepOwner) -> None:
    """Compare some entries of a few variables in turn, and all if they differ. Collective.

    That takes next to no time. What one rank changes by itself (its learning rate, say) soon makes
    others differ, and so is found by one of the next steps.
    """
    variables = replicated_variables(owner)
    if not variables:
        return
    begin, owner.num_checks = owner.num_checks * _NUM_IN_TURN, owner.num_checks + 1
    places = range(begin, begin + _NUM_IN_TURN)
    arrays = [array_of(variables[place % len(variables)]).reshape(-1) for place in places]
    own = b"".join(array[:: max(1, len(array) // _NUM_ENTRIES)].tobytes() for array in arrays)
    if len(set(allgather("some entries of the weights", own))) > 1:
        check_replicas(owner)


def _is_seed_state(variable: Any) -> bool:
    """Return whether a variable of a layer may be a seed and a counter, of a generator's state."""
    is_integer = tf.as_dtype(variable.dtype).is_integer
    return is_integer and tf.TensorShape(variable.shape) == (2,)


def states_of_generators(model: keras.Model) -> list[tf.Variable]:
    """Return the states of TensorFlow's global generator and of those in layers. Local."""
    layers = all_layers(model)
    generators = [each for layer in layers for each in in_attributes(layer, tf.random.Generator)]
    with contextlib.suppress(RuntimeError):  # there is none if operations are deterministic
        generators.append(tf.random.get_global_generator())
    return list({id(each): each.state for each in generators}.values())


def tensorflow_variables(model: keras.Model) -> list[tf.Variable]:
    """Return the `tf.Variable`s in attributes of layers, which Keras does not know. Local."""
    found = [each for layer in all_layers(model) for each in in_attributes(layer, tf.Variable)]
    return [each for each in found if tf.as_dtype(each.dtype) != tf.string]


def metric_variables(owner: StepOwner) -> list[Any]:
    """Return the variables of the metrics of a model, none of a function. Local."""
    metrics = [] if owner.model is None else owner.model.metrics
    return [variable for metric in metrics for variable in metric.variables]


def _digest(array: np.ndarray[Any, Any]) -> bytes:
    # SHA-1 has instructions of its own on most CPUs; nobody forges the weights of other ranks.
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return hashlib.sha1(data.data, usedforsecurity=False).digest()


def _give_values_of_master(variables: Sequence[Any]) -> None:
    values = broadcast("weights of the master rank", [array_of(each) for each in variables])
    for variable, value in zip(variables, values, strict=True):
        if tf.TensorShape(variable.shape).is_compatible_with(value.shape):
            variable.assign(value)  # else it was made by a step that failed, and holds nothing


def array_of(value: Any) -> np.ndarray:
    """Return what a variable or tensor holds, also scalars of bfloat16. Local."""
    return np.asarray(tf.convert_to_tensor(value).numpy())


def name_of(variable: Any) -> str:
    """Return the name of a variable on the master rank, which may number layers anew. Local."""
    own = str(getattr(variable, "path", variable.name))  # a `tf.Variable` has no path
    return str(getattr(variable, _NAME_ON_MASTER_RANK, own))


def describe(variables: Sequence[Any]) -> list[list[Any]]:
    """Return name, shape and dtype of each variable. Local."""
    shapes = [tf.TensorShape(each.shape) for each in variables]
    return [
        [name_of(each), None if s.rank is None else s.as_list(), tf.as_dtype(each.dtype).name]
        for each, s in zip(variables, shapes, strict=True)
    ]


def shown(described: Sequence[Sequence[Any]], index: int) -> str:
    """Return how messages call the variable at some place of what `describe` returns. Pure."""
    if index >= len(described):
        return "absent"
    name, shape, dtype = described[index]
    return f"{name!r} of shape {shape and tuple(shape)} and dtype {dtype}"


def _require_same_structure(variables: list[Any]) -> bool:
    """Compare the variables of ranks, and take over the master's names; has it a global seed?"""
    require_same(
        "the models of the ranks differ",
        {
            f"variable {i}, {name!r},": f"of shape {shape and tuple(shape)} and dtype {dtype}"
            for i, (name, shape, dtype) in enumerate(describe(variables))
        },
        "Every rank must build the same model.",
    )
    own = [name_of(variable) for variable in variables]
    names, has_seed = of_master("names of the variables", (own, has_global_seed()))
    for variable, name, of_rank in zip(variables, names, own, strict=True):
        if name != of_rank:
            setattr(variable, _NAME_ON_MASTER_RANK, name)
    return bool(has_seed)


def generator_states() -> dict[str, Any]:
    """Return the states of `random` and `numpy.random`, as plain values. Local."""
    return {"random": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def set_generator_states(states: dict[str, Any]) -> None:
    """Let `random` and `numpy.random` go on from `generator_states()` or a part. Local."""
    if "random" in states:
        random.setstate(states["random"])
    if "numpy" in states:
        np.random.set_state(states["numpy"])


def use_generators_of_master(*, with_seed: bool = False) -> dict[str, Any]:
    """Let `random` and `numpy.random` go on from the states of the master rank. Collective.

    Return what `set_generator_states` takes to go back: the former states if they were others; the
    master goes on, which may be drawing in another thread. `with_seed`: give TensorFlow a global
    seed, if it has none.
    """
    own = generator_states()
    masters, seed = of_master("random generators", (own, secrets.randbits(31)))
    if with_seed and tf.compat.v1.get_seed(None) == (None, None):
        tf.random.set_seed(seed)
    if all(map(np.array_equal, tf.nest.flatten(own), tf.nest.flatten(masters))):
        return {}
    set_generator_states(masters)
    return own
