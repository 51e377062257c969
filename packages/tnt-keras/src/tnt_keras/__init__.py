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
from tnt_keras.process.comm_interface import check_c_interface

if TYPE_CHECKING:
    from tnt_comm import Group as Group
    from tnt_keras import callbacks as callbacks
    from tnt_keras import data as data
    from tnt_keras import keras as keras
    from tnt_keras import models as models
    from tnt_keras.api.model import Model as Model
    from tnt_keras.api.model import Sequential as Sequential
    from tnt_keras.api.parallel_strategy import ParallelStrategy as ParallelStrategy
    from tnt_keras.api.step_function import explain as explain
    from tnt_keras.api.step_function import function as function
    from tnt_keras.api.step_function import should_stop as should_stop
    from tnt_keras.calls.together import allgather_object as allgather_object
    from tnt_keras.calls.together import broadcast_object as broadcast_object
    from tnt_keras.calls.together import master_first as master_first
    from tnt_keras.legacy.batches import batch_mean as batch_mean
    from tnt_keras.legacy.batches import batch_sum as batch_sum
    from tnt_keras.legacy.batches import gather_batch as gather_batch
    from tnt_keras.legacy.original_names import Barrier as Barrier
    from tnt_keras.legacy.tensor_collectives import TensorAllgatherer as TensorAllgatherer
    from tnt_keras.legacy.tensor_collectives import TensorAllreducer as TensorAllreducer
    from tnt_keras.legacy.tensor_collectives import TensorBroadcaster as TensorBroadcaster
    from tnt_keras.process.rank import get_group_master_rank as get_group_master_rank
    from tnt_keras.process.rank import get_local_rank as get_local_rank
    from tnt_keras.process.rank import get_local_size as get_local_size
    from tnt_keras.process.rank import get_master_rank as get_master_rank
    from tnt_keras.process.rank import get_rank as get_rank
    from tnt_keras.process.rank import get_size as get_size
    from tnt_keras.process.rank import is_group_master_rank as is_group_master_rank
    from tnt_keras.process.rank import is_master_rank as is_master_rank
    from tnt_keras.process.rank import print as print
    from tnt_keras.restart.fit_backup import save_now as save_now

    __version__: str

check_c_interface()

_MARKS = (
    *("TNT_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID", "WORLD_SIZE"),
    "TNT_LANES",
)
"""Variables of which a process to set up has one: of several, or with lanes; others may, too."""

if not os.environ.keys().isdisjoint(_MARKS):
    importlib.import_module("tnt_comm")  # which tells others of errors from here on
    importlib.import_module("tnt_keras.process.direct_start").set_up_this_rank()

_MODULES = ("callbacks", "data", "keras", "models")
_NAMES = {
    "api.parallel_strategy": ("ParallelStrategy",),
    "api.model": ("Model", "Sequential"),
    "api.step_function": ("explain", "function", "should_stop"),
    "calls.together": ("allgather_object", "broadcast_object", "master_first"),
    "legacy.batches": ("batch_mean", "batch_sum", "gather_batch"),
    "legacy.original_names": ("Barrier",),
    "legacy.tensor_collectives": ("TensorAllgatherer", "TensorAllreducer", "TensorBroadcaster"),
    "process.rank": (
        *("print", "get_rank", "get_size", "get_local_rank", "get_local_size"),
        *("get_master_rank", "is_master_rank", "get_group_master_rank", "is_group_master_rank"),
    ),
    "restart.fit_backup": ("save_now",),
}
"""The names, by the modules of this package that define them."""
_TELL_OF_RANKS = ("get_rank", "get_size", "get_local_rank", "get_local_size", "is_master_rank")
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_FRAMEWORKS = ("keras", "tensorflow")

__all__ = sorted(("Group", *_MODULES, *_HOME))


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
        value = getattr(importlib.import_module(f"tnt_keras.{_HOME[name]}"), name)
        if name in _TELL_OF_RANKS and "TNT_STEP_HASHES" in os.environ:
            noting = importlib.import_module("tnt_keras.process.step_hashes").noting_callers
            value = noting(name, value)
        return value
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
            _set_up_lanes()


def _set_up_lanes() -> None:
    # What is malformed is told by the first call that needs it.
    if "TNT_LANES" in os.environ:
        with contextlib.suppress(ValueError):
            importlib.import_module("tnt_keras.process.lanes").set_up_lanes()


when_imported("keras", _watch_keras)
