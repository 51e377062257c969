"""TensorFlow in this process: set up, our operations in it, nothing else that distributes models.

The launcher sets GPUs and threads of a rank before Python starts, whatever a script does first;
`direct_start` those of other ranks, when this package is imported.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
import os
from typing import Any

import keras
import tensorflow as tf

import tnt_comm
from tnt_comm.board import has_launcher
from tnt_keras.process.direct_start import take_warnings
from tnt_keras.process.lanes import describe_lanes
from tnt_keras.process.rank import Settings, get_size, logger, set_up_logging, settings
from tnt_keras.process.variables import ALL_NAMES, warnings_of_unknown

# Not where the sources are in an editable installation.
_LIBRARY = importlib.resources.files("tnt_keras") / "libtnt_ops.so"


@functools.cache
def set_up_process() -> None:
    """Read the settings, set up logging and check the devices; once, and not at import. Local."""
    set_up_logging(settings())
    if not has_launcher():  # which has warned already
        for warning in [*warnings_of_unknown(os.environ, ALL_NAMES), *take_warnings()]:
            logger.warning(warning)
    check_devices(settings())
    describe_lanes()


def check_devices(settings: Settings) -> None:
    """Make sure that TensorFlow sees a GPU if this rank is to use one. Local."""
    asked = settings.gpus_per_node
    if asked == 0 or (asked is None and get_size() == 1):
        return
    sees_gpu = bool(tf.config.list_physical_devices("GPU"))
    if asked and not sees_gpu:
        raise RuntimeError(
            f"TNT_GPUS_PER_NODE={asked}, but TensorFlow sees no GPU on this host. "
            "Pass --no-gpu to compute on CPUs, or install a TensorFlow that finds the GPUs: "
            '`pip install "tensorflow[and-cuda]"`.'
        )
    if sees_gpu and get_size() > 1:
        _check_one_gpu()


def _check_one_gpu() -> None:
    """Notice that TensorFlow was used before it could be told which GPU is this rank's."""
    count = len(tf.config.list_physical_devices("GPU"))
    if count > 1:
        logger.warning(
            "TensorFlow sees %d GPUs on each rank of this host, and all ranks use the first. "
            "Import tarantella before anything else uses TensorFlow. [one-gpu-for-all]",
            count,
        )


def path_of_operations() -> str:
    """Return the path of the library of our operations. Local."""
    return str(_LIBRARY)


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
            f"Keras computes with {backend}, but Tarantella distributes models on TensorFlow: set "
            "the environment variable KERAS_BACKEND=tensorflow."
        )
    variables = [variable.value for variable in model.variables]
    is_mirrored = any(isinstance(each, tf.distribute.DistributedValues) for each in variables)
    if tf.distribute.has_strategy() or is_mirrored:
        raise _error_of_strategy(f"The model {model.name!r} is under a")


def check_no_strategy(call: str) -> None:
    """Make sure that a call is not made in the scope of a `tf.distribute.Strategy`. Local."""
    if tf.distribute.has_strategy():
        raise _error_of_strategy(f"`{call}` is called in the scope of a")


def _error_of_strategy(where: str) -> RuntimeError:
    return RuntimeError(
        f"{where} `tf.distribute.Strategy`, which would distribute the model a second time: "
        "remove the strategy and its scope, and start the script with `tarantella -n 2 -- "
        "script.py`, one rank for each device."
    )


def class_for_errors(model: Any) -> str:
    """Return of what class something is that should be a model, and what to do about Keras 2."""
    cls = type(model)
    if all(each.__module__.partition(".")[0] != "tf_keras" for each in cls.__mro__):
        return cls.__name__
    return (
        f"{cls.__name__} of tf_keras, which is Keras 2. Create it with Keras 3: unset "
        "TF_USE_LEGACY_KERAS, which makes `tf.keras` tf_keras, and `import keras`"
    )
