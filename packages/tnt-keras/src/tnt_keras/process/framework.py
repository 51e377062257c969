"""TensorFlow in this process: our operations in it, and nothing else that distributes models."""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
from typing import Any

import keras
import tensorflow as tf

import tnt_comm

# Not where the sources are in an editable installation.
_LIBRARY = importlib.resources.files("tnt_keras") / "libtnt_ops.so"


@functools.cache
def op_library() -> Any:
    """Return the operations, a function for each; load them at the first call. Local."""
    # TensorFlow must be the first to open the library: it wraps the operations that are registered
    # while it does so, and they are registered when the library is opened for the first time.
    module = tf.load_op_library(str(_LIBRARY))
    open_comm_library = ctypes.CDLL(str(_LIBRARY)).tnt_keras_open_comm_library
    open_comm_library.argtypes = [ctypes.c_char_p]
    open_comm_library.restype = ctypes.c_char_p
    error = open_comm_library(tnt_comm.library_path().encode())
    if error is not None:
        raise ImportError(f"Cannot use {tnt_comm.library_path()}: {error.decode()}.")
    return module


def check_not_distributed_otherwise(model: Any) -> None:
    """Refuse other backends of Keras, and a `tf.distribute.Strategy` around the model. Local."""
    backend = keras.config.backend()
    if backend != "tensorflow":
        raise RuntimeError(
            f"Keras computes with {backend}, and Tarantella distributes models on TensorFlow: set "
            "the environment variable KERAS_BACKEND=tensorflow."
        )
    variables = [variable.value for variable in model.variables]
    is_mirrored = any(isinstance(each, tf.distribute.DistributedValues) for each in variables)
    if tf.distribute.has_strategy() or is_mirrored:
        raise _error_of_strategy(f"The model {model.name!r} is under a")


def class_for_errors(model: Any) -> str:
    """Return of what class something is that should be a model, and what to do about Keras 2."""
    cls = type(model)
    if all(each.__module__.partition(".")[0] != "tf_keras" for each in cls.__mro__):
        return cls.__name__
    return (
        f"{cls.__name__} of tf_keras, which is Keras 2. Make it with Keras 3: unset "
        "TF_USE_LEGACY_KERAS, by which `tf.keras` is tf_keras, and `import keras`"
    )


def check_no_strategy(call: str) -> None:
    """Make sure that a call is not made in the scope of a `tf.distribute.Strategy`. Local."""
    if tf.distribute.has_strategy():
        raise _error_of_strategy(f"`{call}` is called in the scope of a")


def _error_of_strategy(where: str) -> RuntimeError:
    return RuntimeError(
        f"{where} `tf.distribute.Strategy`, which would distribute the model a second time: leave "
        "the strategy and its scope out, and start the script with "
        "`tarantella -n 2 -- script.py`, one rank for each device."
    )
