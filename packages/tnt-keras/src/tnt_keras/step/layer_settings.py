"""Compare what is no variable of layers, losses and metrics, and so cannot be sent to ranks."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import keras

from tnt_keras.collectives.errors import DifferentInputError
from tnt_keras.collectives.replicas import compare_texts
from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.process.rank import MASTER_RANK, get_rank

_MAY_DIFFER = {
    "name",  # counts what was made before
    "seed",  # its state is a variable, as the first weights are
    "build_config",  # shapes of the first batch
    "batch_shape",
    "optimizer",  # `optimizer_settings` tells more
}
_OF_COMPILE = ("loss", "loss_weights", "metrics", "weighted_metrics")


def require_same_layers(model: keras.Model) -> None:
    """Compare the settings of the layers, losses and metrics of ranks. Collective.

    Another activation, rate or policy on one rank leaves all variables alike, and every result
    wrong. Names and seeds may differ, and so may what initialises weights, since all ranks go on
    with those of the master rank.

    Args:
        model: A built distributed model.

    Raises:
        DifferentInputError: On all ranks, if settings differ; shows two of them.
    """
    texts = [*_texts_of_layers(model), *_texts_of_compile(model)]
    difference = compare_texts("settings of the layers", texts, missing="nothing more")
    if difference is not None:
        raise DifferentInputError(
            f"Rank {get_rank()}: the models of the ranks differ: rank {MASTER_RANK} has "
            f"{difference.of_master_rank}, and rank {difference.rank} has {difference.of_rank}. "
            "Every rank must build and compile the same model."
        )


def _texts_of_layers(model: keras.Model) -> Iterator[str]:
    for index, layer in enumerate(all_layers(model)):
        title = f"layer {index}, {type(layer).__name__}"
        yield title
        policy = getattr(layer, "dtype_policy", None)
        yield f"{title}, with dtype={getattr(policy, 'name', None)!r}"
        if not isinstance(layer, keras.Model):  # its settings are those of its layers
            yield from (f"{title}, with {text}" for text in _texts_of("", _config_of(layer)))


def _texts_of_compile(model: Any) -> Iterator[str]:
    config = _config_of(model, "get_compile_config")
    for name in _OF_COMPILE:
        yield from _texts_of(name, config.get(name))


def _config_of(described: Any, method: str = "get_config") -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a lambda would not be safe in a file
        try:
            return getattr(described, method)() or {}
        except Exception:  # what a class of the user's cannot tell is not compared
            return {}


def _texts_of(name: str, value: Any) -> Iterator[str]:
    """Describe the numbers, switches and words in a setting, one by one."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in _MAY_DIFFER and "initializer" not in str(key):
                # A class and its config are described as one.
                yield from _texts_of(name if key == "config" else f"{name}.{key}".strip("."), each)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            yield from _texts_of(f"{name}[{index}]", each)
    elif isinstance(value, str):
        # A path may be that of a host, and code of a lambda depends on who refers to it.
        if os.sep not in value and "\n" not in value:
            yield f"{name}={value!r}"
    elif value is None or isinstance(value, (bool, int, float)):
        yield f"{name}={value!r}"
