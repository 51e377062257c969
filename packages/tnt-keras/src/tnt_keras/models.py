"""`tnt.models`: files and copies of models, as in `keras.models`, for distributed ones.

What is written is plain Keras; what is made or read is distributed.
"""

from __future__ import annotations

import functools
import os
from typing import Any

import keras

from tnt_keras.api.model import Model, Sequential
from tnt_keras.calls.files import read_from_master, write_atomically
from tnt_keras.calls.together import collective_call
from tnt_keras.keras_hooks.patch import signature_of
from tnt_keras.legacy.original_names import no_attribute
from tnt_keras.process.framework import class_for_errors
from tnt_keras.step.accumulation import reduce_accumulated

__all__ = [
    "Model",
    "Sequential",
    "save_model",
    "load_model",
    "clone_model",
    "model_from_config",
    "model_from_json",
]


def save_model(
    model: keras.Model,
    filepath: str | os.PathLike[str],
    overwrite: bool = True,
    zipped: bool | None = None,
    *,
    tnt_save_all_devices: bool = False,
    **kwargs: Any,
) -> None:
    """Write a model as a plain Keras model, once and completely. Collective.

    Args:
        model: A distributed model, whose `save` is called, or one of Keras.
        filepath: As in Keras.
        overwrite: Whether an existing file is replaced; never asks.
        zipped: As in Keras.
        tnt_save_all_devices: Whether every rank writes, to its own disk; otherwise the master rank
            does, and all ranks wait for it.
        **kwargs: As in Keras.

    Raises:
        ValueError: If `model` is not a Keras model.
        FileExistsError: On all ranks, if the file exists and `overwrite` is False.
        OSError: On all ranks, if the file cannot be written.
    """
    _check_is_model(model)
    if isinstance(model, Model):
        model.save(filepath, overwrite, zipped, tnt_save_all_devices=tnt_save_all_devices, **kwargs)
    else:
        _save_plain(model, filepath, overwrite, tnt_save_all_devices, zipped=zipped, **kwargs)


@collective_call("save_model", is_local_alone=True)
def _save_plain(
    model: Any, filepath: Any, overwrite: bool, on_all_ranks: bool, **kwargs: Any
) -> None:
    reduce_accumulated([getattr(model, "optimizer", None)])
    save = functools.partial(model.save, **kwargs)
    write_atomically(filepath, save, overwrite=overwrite, on_all_ranks=on_all_ranks)


@signature_of(keras.models.load_model)
@collective_call("load_model")
def load_model(filepath: str | os.PathLike[str], *args: Any, **kwargs: Any) -> Any:
    """Read a model that the master rank sees, and distribute it. Collective.

    Ranks that cannot see the file get its bytes from the master. It returns when all ranks have
    read the file, so any of them may then remove it.

    Args:
        filepath: As in Keras, saved by any number of ranks or by plain Keras; the file that the
            master rank sees counts.
        *args: As in Keras.
        **kwargs: As in Keras.

    Returns:
        The distributed model, compiled and with the state of its optimizer if it was saved so.

    Raises:
        ValueError: On all ranks, if the master cannot see the file, or it contains no model.
        Exception: On all ranks, if one cannot read the file; says which and why.
    """
    return Model(
        read_from_master(filepath, lambda path: keras.models.load_model(path, *args, **kwargs))
    )


@signature_of(keras.models.clone_model)
def clone_model(model: keras.Model, *args: Any, **kwargs: Any) -> Any:
    """Create a distributed model of the same structure with new weights. Local.

    Args:
        model: A distributed model or one of Keras, as for `keras.models.clone_model`.
        *args: As in Keras.
        **kwargs: As in Keras.

    Returns:
        The distributed model; compiled like the given one if Keras compiles its clones.

    Raises:
        ValueError: If `model` is not a Keras model.
    """
    _check_is_model(model)
    return Model(keras.models.clone_model(model, *args, **kwargs))


def model_from_config(config: Any, custom_objects: Any = None) -> Any:
    """Create a distributed model from its description. Local.

    Args:
        config: What `get_config()` of a functional model or a `keras.Sequential` gives, or
            `keras.saving.serialize_keras_object(model)` of any.
        custom_objects: As in Keras.

    Returns:
        The distributed model with new weights; compiled if the description says how.

    Raises:
        ValueError: If `config` is none of these.
    """
    if not isinstance(config, dict) or not {"class_name", "layers"} & config.keys():
        given = f"a dict of {', '.join(config)}" if isinstance(config, dict) else repr(config)
        raise ValueError(
            "`config` must be what `get_config()` of a functional model or a `keras.Sequential` "
            f"gives, or `keras.saving.serialize_keras_object(model)`. Received: {given}."
        )
    if "class_name" in config:
        return Model(keras.saving.deserialize_keras_object(config, custom_objects))
    return (Model if "output_layers" in config else Sequential).from_config(config, custom_objects)


def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """Create a distributed model from what `model.to_json()` gives. Local.

    Args:
        json_string: As for `keras.models.model_from_json`.
        custom_objects: As in Keras.

    Returns:
        The distributed model with new weights; compiled if the description says how.
    """
    return Model(keras.models.model_from_json(json_string, custom_objects))


def _check_is_model(model: Any) -> None:
    if not isinstance(model, keras.Model):
        raise ValueError(f"`model` must be a `keras.Model`. Received: {class_for_errors(model)}.")


def __getattr__(name: str) -> Any:
    raise no_attribute(__name__, name)
