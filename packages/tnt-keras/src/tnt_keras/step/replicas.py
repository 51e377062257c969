"""What all ranks hold alike: weights, settings of layers and optimizers, states of generators."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import secrets
import warnings
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.agree import first_difference, of_master, require_same
from tnt_keras.calls.errors import DifferentWeightsError
from tnt_keras.calls.messages import allgather, broadcast
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.keras_hooks.private import all_layers, global_seed, has_global_seed, in_attributes
from tnt_keras.process.rank import MASTER_RANK, get_rank, is_master_rank
from tnt_keras.step.accumulation import pending_variables
from tnt_keras.step.owner import StepOwner

_NAME_ON_MASTER_RANK = "_tnt_name"
_NUM_IN_TURN = 4
_NUM_ENTRIES = 16
_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size


def replicated_variables(owner: StepOwner) -> list[Any]:
    """Return all variables that must be equal on all ranks, each once. Local.

    These are the weights of the model, the variables of optimizers, and whatever else steps read or
    change; neither metrics, nor sums of gradients of which each rank has a partial sum.
    """
    model = owner.model
    of_optimizers = [each for optimizer in owner.optimizers for each in optimizer.variables]
    of_model = [] if model is None else model.weights
    left_out = metric_variables(owner)
    left_out += pending_variables(owner.optimizers)
    known = {id(backing(variable)) for variable in left_out}
    variables = []
    for variable in [*of_model, *of_optimizers, *owner.variables]:
        if id(backing(variable)) not in known:
            known.add(id(backing(variable)))
            variables.append(variable)
    return variables


def synchronize(owner: StepOwner) -> None:
    """Give all ranks the weights, optimizer state and seeds of the master rank. Collective."""
    require_same_optimizers(owner.optimizers)
    variables = replicated_variables(owner)
    of_metrics = metric_variables(owner)
    if owner.model is not None:
        variables += [*seed_states(owner), *states_of_generators(owner.model)]
    if _require_same_structure([*variables, *of_metrics]):
        variables.append(global_seed())
    _give_values_of_master([*variables, *of_metrics])
    owner.are_synchronized.update((id(backing(v)), v) for v in (*variables, *of_metrics))


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
        name = name_of(variables[difference.index])
        raise DifferentWeightsError(
            f"Rank {get_rank()}: the variable {name!r} is not the same on all ranks: ranks "
            f"{difference.ranks} differ from rank {MASTER_RANK}. Training was stopped, since its "
            "results would be wrong. Does a callback or other code change variables outside of a "
            "step, on one rank or differently on each?"
        )


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


def seed_states(owner: StepOwner) -> list[Any]:
    """Return the states of layers' seed generators: pairs of a seed and a counter. Local."""
    others = [*replicated_variables(owner), *metric_variables(owner)]
    known = {id(backing(variable)) for variable in others}
    return [
        variable
        for variable in owner.model.variables
        if id(backing(variable)) not in known
        and tf.TensorShape(variable.shape) == (2,)
        and tf.as_dtype(variable.dtype).is_integer
    ]


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


_MAY_DIFFER = {
    "name",  # counts what was made before
    "seed",  # its state is a variable, as the first weights are
    "build_config",  # shapes of the first batch
    "batch_shape",
}
_RATE = "learning_rate"
_OF_COMPILE = ("loss", "loss_weights", "metrics", "weighted_metrics")


def require_same_layers(model: keras.Model) -> None:
    """Compare the settings of the layers, losses and metrics of ranks. Collective.

    Another activation, rate or policy on one rank leaves all variables alike, and every result
    wrong. Names, seeds and initializers may differ. What a class of the user's says of itself may
    be anything, such as a time or an address: of such classes only the names are compared.
    """
    require_same(
        "the models of the ranks differ",
        [*_texts_of_layers(model), *_texts_of_compile(model)],
        "Every rank must build and compile the same model.",
    )


def _texts_of_layers(model: keras.Model) -> Iterator[str]:
    for index, layer in enumerate(all_layers(model)):
        title = f"layer {index}, {type(layer).__name__}"
        yield title
        policy = getattr(layer, "dtype_policy", None)
        yield f"{title}, with dtype={getattr(policy, 'name', None)!r}"
        if _is_of_keras(type(layer).__module__):
            yield from (f"{title}, with {text}" for text in _texts_of("", _config_of(layer)))


def _texts_of_compile(model: Any) -> Iterator[str]:
    config = _config_of(model, "get_compile_config")
    for name in _OF_COMPILE:
        given = config.get(name)
        if isinstance(given, dict) and "class_name" not in given:
            given = list(given.values())  # the keys are names of outputs
        yield from _texts_of(name, given)


def _config_of(described: Any, method: str = "get_config") -> dict[str, Any]:
    # Keras warns that a lambda would not be safe in a file. `warnings.catch_warnings` would let all
    # warnings of Python appear once more.
    with replaced(warnings, "warn", lambda *args, **kwargs: None):
        try:
            return getattr(described, method)() or {}
        except Exception:  # what cannot be told is not compared
            return {}


def _is_of_keras(module: Any) -> bool:
    return str(module).partition(".")[0] == "keras"


def _texts_of(name: str, value: Any) -> Iterator[str]:
    """Describe the numbers, switches and words in a setting, one by one."""
    if isinstance(value, dict):
        if "class_name" in value:
            yield f"{name}={value['class_name']}"
            value = value.get("config") if _is_of_keras(value.get("module")) else None
        if isinstance(value, dict) and "layers" not in value:  # those of a model have names in them
            for key, each in value.items():
                if key not in _MAY_DIFFER and "initializer" not in str(key):
                    yield from _texts_of(f"{name}.{key}".strip("."), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _texts_of(f"{name}[{index}]", each)
    elif isinstance(value, str):
        # A path may be that of a host, and code of a lambda depends on who refers to it.
        if os.sep not in value and "\n" not in value:
            yield f"{name}={value!r}"
    elif value is None or isinstance(value, (bool, int, float)):
        yield f"{name}={value!r}"


def require_same_optimizers(optimizers: Iterable[Any]) -> None:
    """Compare the optimizers of ranks before their first step. Collective.

    A learning rate that is a number is a variable: all ranks go on with the master's, with a
    warning. Schedules, momenta, clipping and the like stay each rank's, so that weights would drift
    apart.
    """
    values, rates = {}, {}
    for i, optimizer in enumerate(optimizers):
        which = f"of optimizer {i + 1}" if i else "of the optimizer"
        values[f"the class {which}"] = type(optimizer).__name__
        for name, value in _comparable(_config_of(optimizer)).items():
            if name == _RATE and isinstance(value, float):
                rates[f"the {name} {which}"] = str(value)
                value = "a number"
            values[f"the {name} {which}"] = str(value)
    claim = "the optimizers of the ranks differ"
    require_same(claim, values, "Every rank must make the same optimizer.")
    remedy = f"All ranks go on with that of rank {MASTER_RANK}."
    require_same(claim, rates, remedy, is_error=False)


def _comparable(value: Any) -> Any:
    """Return a value as JSON knows it; of other objects only the class, which has no address."""
    if isinstance(value, dict):
        return {str(key): _comparable(each) for key, each in value.items() if key != "name"}
    if isinstance(value, (list, tuple)):
        return [_comparable(each) for each in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return float(value) if hasattr(value, "__float__") else type(value).__name__


def generator_states() -> dict[str, Any]:
    """Return the states of `random` and `numpy.random`, as plain values. Local."""
    return {"random": random.getstate(), "numpy": np.random.get_state(legacy=False)}


def set_generator_states(states: dict[str, Any]) -> None:
    """Let `random` and `numpy.random` go on from `generator_states()` or a part. Local."""
    if "random" in states:
        random.setstate(states["random"])
    if "numpy" in states:
        np.random.set_state(states["numpy"])


def use_generators_of_master() -> None:
    """Set the generators that Python code draws from to the states of the master rank. Collective.

    These are `random` and `numpy.random`, and TensorFlow's global seed, if there is none.
    """
    states, seed = _of_master_rank()
    set_generator_states(states)
    if tf.compat.v1.get_seed(None) == (None, None):
        tf.random.set_seed(seed)


def catch_up_with_generators_of_master() -> None:
    """Set other ranks' generators to the states of the master's, which goes on. Collective."""
    # The master may be drawing at this moment, in a thread that reads ahead.
    states, _ = _of_master_rank()
    if not is_master_rank():
        set_generator_states(states)


@contextlib.contextmanager
def generators_of_master() -> Iterator[None]:
    """Let code draw what the master draws; a rank in other states has these again. Collective."""
    own, (masters, _) = generator_states(), _of_master_rank()
    set_generator_states(masters)
    try:
        yield
    finally:
        if not all(map(np.array_equal, tf.nest.flatten(own), tf.nest.flatten(masters))):
            set_generator_states(own)


def _of_master_rank() -> Any:
    """Return the master rank's states, and a seed that it has drawn."""
    return of_master("random generators", (generator_states(), secrets.randbits(31)))
