"""Synchronous data-parallel training of Keras models: `import tarantella as tnt`.

The names of this package are those of tnt-keras, with tnt-comm as `tnt.comm`, and `launch` of
tnt-launch. A script is one of several ranks if the launcher, `srun`, an MPI or torchrun has started
it several times; else a world of one.

Importing loads nothing but the names, and on a rank what tells of its errors: a part is imported
when one of its names is used first.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tnt_comm as comm
    from tarantella._versions import versions
    from tnt_keras import (
        Barrier,
        Group,
        Model,
        ParallelStrategy,
        Sequential,
        TensorAllgatherer,
        TensorAllreducer,
        TensorBroadcaster,
        allgather_object,
        batch_mean,
        batch_sum,
        broadcast_object,
        callbacks,
        data,
        explain,
        function,
        gather_batch,
        get_group_master_rank,
        get_local_rank,
        get_local_size,
        get_master_rank,
        get_rank,
        get_size,
        is_group_master_rank,
        is_master_rank,
        keras,
        master_first,
        models,
        print,
        save_now,
        should_stop,
    )
    from tnt_launch.errors import LaunchError, RankFailedError
    from tnt_launch.function.launch import launch

    __version__: str

importlib.import_module("tnt_keras")  # which, on a rank, tells others of errors from here on

__all__ = [
    "Model",
    "Sequential",
    "ParallelStrategy",
    "get_rank",
    "get_size",
    "get_local_rank",
    "get_local_size",
    "get_master_rank",
    "is_master_rank",
    "get_group_master_rank",
    "is_group_master_rank",
    "gather_batch",
    "batch_sum",
    "batch_mean",
    "explain",
    "function",
    "save_now",
    "should_stop",
    "master_first",
    "broadcast_object",
    "allgather_object",
    "print",
    "launch",
    "LaunchError",
    "RankFailedError",
    "Group",
    "Barrier",
    "TensorAllreducer",
    "TensorBroadcaster",
    "TensorAllgatherer",
    "callbacks",
    "comm",
    "data",
    "keras",
    "models",
    "versions",
    "__version__",
]

_OF_THE_LAUNCHER = {
    "launch": "tnt_launch.function.launch",
    "LaunchError": "tnt_launch.errors",
    "RankFailedError": "tnt_launch.errors",
}


def __getattr__(name: str) -> Any:
    value = _load(name)
    globals()[name] = value  # the next use finds it without coming here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _load(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("tarantella")
    if name == "versions":
        return importlib.import_module("tarantella._versions").versions
    if name == "comm":
        return importlib.import_module("tnt_comm")
    if name in _OF_THE_LAUNCHER:
        return getattr(importlib.import_module(_OF_THE_LAUNCHER[name]), name)
    if name not in __all__:
        raise importlib.import_module("tnt_keras.legacy.original_names").no_attribute(
            __name__, name
        )
    return getattr(importlib.import_module("tnt_keras"), name)
