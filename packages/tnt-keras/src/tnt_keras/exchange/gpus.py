"""Sums of tensors that are on GPUs: whose GPU takes part, and what sums."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from typing import Any

import tensorflow as tf

import tnt_comm
from tnt_keras.calls.messages import allgather
from tnt_keras.process.framework import op_library, path_of_operations
from tnt_keras.process.rank import logger

_NONE = -1  # as tnt-comm has it


@functools.cache
def gpu_of_job() -> int | None:
    """Return which GPU of this process reducers are for. Collective at the first call.

    -1 if it has none that can be used, but TensorFlow computes on one here or on another rank; None
    if all ranks compute on CPUs.
    """
    own = _gpu_of_tensorflow()
    compute_on_gpus = allgather("which ranks compute on GPUs", bytes([own is not None]))
    if not any(map(any, compute_on_gpus)):
        return None
    return _NONE if own is None or not _can_sum(own) else own


def _gpu_of_tensorflow() -> int | None:
    """Return the number that the driver has for the GPU that TensorFlow calls GPU:0."""
    gpus = tf.config.get_visible_devices("GPU")
    return int(gpus[0].name.rpartition(":")[2]) if gpus else None


def _can_sum(gpu: int) -> bool:
    obstacle = tnt_comm.gpu_obstacle(gpu, is_stream_known=_knows_streams())
    if obstacle:
        logger.warning(
            "TensorFlow copies gradients of the GPU to the memory of the host and back, which "
            "takes time and changes no result: they cannot be summed from the GPU. %s "
            "[gradients-through-host]",
            obstacle,
        )
    return not obstacle


def _knows_streams() -> bool:
    """Return whether this TensorFlow tells an operation in which stream of a GPU it runs."""
    op_library()  # which TensorFlow must be the first to open
    has_gpu_stream = ctypes.CDLL(path_of_operations()).tnt_keras_has_gpu_stream
    has_gpu_stream.restype = ctypes.c_bool
    return bool(has_gpu_stream())


_SUMMED_BY = {"ipc": "the GPUs of each host", "host": "the CPUs of the hosts"}


@functools.cache
def tell_what_sums(engine: str, reason: str) -> None:
    """Log once what sums tensors of GPUs. Local."""
    logger.info("Gradients of GPUs are summed by %s: %s.", _SUMMED_BY[engine], reason)


def placement_of(reducer: tnt_comm.GradientReducer) -> contextlib.AbstractContextManager[Any]:
    """Return the scope for operations of a reducer, which otherwise go where TensorFlow likes."""
    if reducer.is_on_gpu or _gpu_of_tensorflow() is None:
        return contextlib.nullcontext()
    return tf.device("CPU:0")
