"""The library of this package's TensorFlow operations, loaded once in a process."""

from __future__ import annotations

import ctypes
import functools
import importlib.resources
from typing import Any

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
