"""What TensorFlow is told before Python starts: threads, visible GPUs, what it logs."""

# A script may import TensorFlow before `tarantella`, so only the environment comes early enough.

from __future__ import annotations

from collections.abc import Mapping

from tnt_launch.planning.settings import Settings
from tnt_launch.planning.variables import LOG_LEVEL, NUM_THREADS

MIN_INTER_OP_THREADS = 2
"""TensorFlow threads that run whole operations; one follows backpropagation, one does the rest."""

_THREADS_OF_AN_OPERATION = "TF_NUM_INTRAOP_THREADS"
_NO_GPU = "-1"
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def num_threads(settings: Settings, inherited: Mapping[str, str], fair: int | None) -> int | None:
    """Choose the threads of a rank; `None` leaves the choice to TensorFlow. Pure."""
    stated = settings.get(NUM_THREADS)
    if stated is not None:
        return stated
    of_tensorflow = inherited.get(_THREADS_OF_AN_OPERATION)
    if of_tensorflow is not None:
        return int(of_tensorflow) or None if of_tensorflow.isdecimal() else None
    return fair


def thread_variables(threads: int | None) -> dict[str, str]:
    """Return the variables that set the sizes of thread pools. Pure."""
    if threads is None:
        return {}
    return {
        _THREADS_OF_AN_OPERATION: str(threads),
        "TF_NUM_INTEROP_THREADS": str(max(threads, MIN_INTER_OP_THREADS)),
        "OMP_NUM_THREADS": str(threads),
    }


def log_variables(settings: Settings) -> dict[str, str]:
    """Return the variable that says what TensorFlow's C++ part logs. Pure."""
    # Each rank would print the same start-up lines.
    return {_LOG_LEVEL: "0" if settings.get(LOG_LEVEL) == "DEBUG" else "3"}


def tensorflow_log_level(settings: Settings, inherited: Mapping[str, str]) -> int:
    """Return the level that is in effect: the user's own, or that of `log_variables`. Pure."""
    text = {**log_variables(settings), **inherited, **settings.exports}[_LOG_LEVEL]
    return int(text) if text in ("0", "1", "2", "3") else 0


def visible_device_variables(gpus: tuple[str, ...], local_rank: int) -> dict[str, str]:
    """Return the variables by which CUDA and ROCm show a rank its own GPU, or none. Pure."""
    own = gpus[local_rank] if gpus else _NO_GPU
    return {"CUDA_VISIBLE_DEVICES": own, "HIP_VISIBLE_DEVICES": own}


def memory_variables(gpus: tuple[str, ...]) -> dict[str, str]:
    """Return the variable that lets TensorFlow take GPU memory as needed, not all of it. Pure."""
    return {"TF_FORCE_GPU_ALLOW_GROWTH": "true"} if gpus else {}
