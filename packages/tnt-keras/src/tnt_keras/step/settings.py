"""Compare between ranks how models and optimizers were made: what no variable tells."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import keras

from tnt_keras.calls.agree import require_same
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.process.rank import MASTER_RANK

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
    require_same(claim, values, "Every rank must create the same optimizer.")
    remedy = f"All ranks continue with that of rank {MASTER_RANK}."
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
