"""Synchronous data-parallel training of Keras models, with the results of the serial run.

    import tarantella as tnt

    model = tnt.Model(model)

makes a Keras model train, evaluate and predict on all ranks that the launcher started.

Importing asks no rank and sets nothing up, and TensorFlow is imported when a name is used that
needs it. From then on a rank tells of its errors, and of plain models that are fitted.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import TYPE_CHECKING, Any

from tnt_keras.keras_hooks.patch import when_imported

if TYPE_CHECKING:
    from tnt_comm import Group
    from tnt_keras import callbacks, data, keras, models
    from tnt_keras.api.model import Model, Sequential
    from tnt_keras.api.step_function import explain, function
    from tnt_keras.calls.together import allgather_object, broadcast_object, master_first
    from tnt_keras.legacy.batch_ops import batch_mean, batch_sum, gather_batch
    from tnt_keras.legacy.original_names import Barrier
    from tnt_keras.legacy.tensor_collectives import (
        TensorAllgatherer,
        TensorAllreducer,
        TensorBroadcaster,
    )
    from tnt_keras.process.former_options import ParallelStrategy, ProbeError
    from tnt_keras.process.output import print
    from tnt_keras.process.rank import (
        get_group_master_rank,
        get_local_rank,
        get_local_size,
        get_master_rank,
        get_rank,
        get_size,
        is_group_master_rank,
        is_master_rank,
    )

    __version__: str

if "TNT_RANK" in os.environ:
    importlib.import_module("tnt_comm")  # which tells the launcher of errors from here on

__all__ = [
    "Barrier",
    "Group",
    "Model",
    "ParallelStrategy",
    "ProbeError",
    "Sequential",
    "TensorAllgatherer",
    "TensorAllreducer",
    "TensorBroadcaster",
    "allgather_object",
    "batch_mean",
    "batch_sum",
    "broadcast_object",
    "callbacks",
    "data",
    "explain",
    "function",
    "gather_batch",
    "get_group_master_rank",
    "get_local_rank",
    "get_local_size",
    "get_master_rank",
    "get_rank",
    "get_size",
    "is_group_master_rank",
    "is_master_rank",
    "keras",
    "master_first",
    "models",
    "print",
]

_MODULES = {"callbacks", "data", "keras", "models"}
_HOME = {
    "Barrier": "legacy.original_names",
    "Model": "api.model",
    "ParallelStrategy": "process.former_options",
    "ProbeError": "process.former_options",
    "Sequential": "api.model",
    **dict.fromkeys(
        ("TensorAllgatherer", "TensorAllreducer", "TensorBroadcaster"),
        "legacy.tensor_collectives",
    ),
    **dict.fromkeys(("allgather_object", "broadcast_object", "master_first"), "calls.together"),
    "print": "process.output",
    "explain": "api.step_function",
    "function": "api.step_function",
    **dict.fromkeys(("batch_mean", "batch_sum", "gather_batch"), "legacy.batch_ops"),
    **{name: "process.rank" for name in __all__ if name.startswith(("get_", "is_"))},
}
"""The modules of this package that define the names."""
_FRAMEWORKS = {"keras", "tensorflow"}


def __getattr__(name: str) -> Any:
    value = _load(name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


def _load(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("tnt-keras")
    if name == "Group":
        return importlib.import_module("tnt_comm").Group
    if name not in __all__:
        raise importlib.import_module("tnt_keras.legacy.original_names").no_attribute(
            __name__, name
        )
    try:
        if name in _MODULES:
            return importlib.import_module(f"tnt_keras.{name}")
        return getattr(importlib.import_module(f"tnt_keras.{_HOME[name]}"), name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _FRAMEWORKS:
            raise
        raise ImportError(
            f"`{name}` needs TensorFlow and Keras, and {missing} is not installed. Run "
            "`pip install tensorflow`, or `pip install tensorflow-cpu` for a machine without GPUs."
        ) from None


def _watch_keras() -> None:
    # What is wrong with Keras is told by the first name that needs it.
    with contextlib.suppress(ImportError, AttributeError):
        if importlib.import_module("keras").config.backend() == "tensorflow":
            importlib.import_module("tnt_keras.api.plain_keras").watch_plain_keras()


when_imported("keras", _watch_keras)
