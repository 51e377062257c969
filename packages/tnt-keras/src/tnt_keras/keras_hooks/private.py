"""The only module that uses what Keras does not document; `private_tensorflow` is for TensorFlow.

- The layers of a model at any depth: `model.layers` lists one level only, and not those that a
  layer keeps for itself.
- The adapters by which Keras reads its inputs: they start and stop the workers of a `PyDataset`.
- How an optimizer accumulates gradients over several steps: its counter of steps (`iterations`
  counts updates), the sums so far, and the method that adds to them.
- The seed of random functions that are given none: it is the only state of Keras without an owner.
- The iterators over epochs of `fit`, which know the position in the data, and where `fit` asks for
  the logs of an epoch: a run may be continued in the middle of one, or after its last step.
- When `BackupAndRestore` writes and reads: what a backup holds, and how it is written, is ours.

Versions are checked when the first of these names is needed: importing this module never fails.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from tnt_keras.keras_hooks.patch import plain_class, replaced
from tnt_keras.keras_hooks.private_tensorflow import VersionGate

_GATE = VersionGate("Keras", oldest=(3, 8), newest=(3, 15))

_adapters = "keras.src.trainers.data_adapters"
_data_adapters = _GATE.find(_adapters)
_get_data_adapter = _GATE.find(_adapters, "get_data_adapter")
_is_torch_loader = _GATE.find(_adapters, "is_torch_dataloader")
_is_grain_dataset = getattr(_data_adapters, "is_grain_dataset", None)  # not in Keras 3.8
_flatten_layers = _GATE.find("keras.src.layers.layer", "Layer", "_flatten_layers")
DataAdapter: Any = _GATE.find(f"{_adapters}.data_adapter", "DataAdapter") or object
"""What Keras' methods take in the place of data: `adapter_of` them, or one of another class."""
_accumulating_method = _GATE.find("keras", "Optimizer", "_backend_apply_gradients")
_trainer = "keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"
_epochs = "keras.src.trainers.epoch_iterator", "EpochIterator"
_backup = "keras.src.callbacks.backup_and_restore", "BackupAndRestore"
for _replaced in (
    (*_trainer, "_maybe_symbolic_build"),
    (*_trainer, "_get_metrics_result_or_logs"),
    (*_epochs, "_enumerate_iterator"),
    (*_backup, "_save_model"),
    (*_backup, "_load_model"),
):
    _GATE.find(*_replaced)
_global_seed_generator = _GATE.find("keras.src.random.seed_generator", "global_seed_generator")
_get_global_attribute = _GATE.find("keras.src.backend.common.global_state", "get_global_attribute")


@functools.cache
def check_version() -> None:
    """Refuse a version of Keras that is not supported, or lacks a name; only once. Local."""
    _GATE.check(keras.__version__)


def has_keras_methods(model: keras.Model, *names: str) -> bool:
    """Return whether methods of a model are those of `keras.Model`, the mixins left out. Local."""
    plain = plain_class(type(model))
    return all(getattr(plain, name) is getattr(keras.Model, name) for name in names)


def all_layers(model: keras.Model) -> list[Any]:
    """Return the model and all layers below it, each once. Local."""
    check_version()
    return list(_flatten_layers(model))


def in_attributes(owner: Any, kind: type | tuple[type, ...]) -> list[Any]:
    """Return the objects of a class in attributes, each once, in the order of attributes. Local.

    They may also be within lists, tuples and dictionaries; sets differ in order between processes.
    """
    return [each for each in _in_containers(vars(owner), set()) if isinstance(each, kind)]


def _in_containers(value: Any, seen: set[int]) -> Iterator[Any]:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        yield value
        return
    for each in list(value):
        yield from _in_containers(each, seen)


def has_global_seed() -> bool:
    """Return whether a random function that was given no seed has been called. Local."""
    check_version()
    return _get_global_attribute("global_seed_generator") is not None


def global_seed() -> keras.Variable:
    """Return the state of the seed of random functions that are given none. Local.

    The first call makes one, from a number of Python's generator.
    """
    check_version()
    return _global_seed_generator().state


def steps_of(optimizer: Any) -> keras.Variable:
    """Return an optimizer's counter of calls of `apply`, be they updates or not. Local."""
    check_version()
    return optimizer._iterations


def accumulates_as_keras(cls: Any) -> bool:
    """Return whether optimizers of a class accumulate gradients by the method of Keras. Local."""
    check_version()
    return cls._backend_apply_gradients is _accumulating_method


def accumulators_of(optimizer: Any) -> list[keras.Variable]:
    """Return where an optimizer adds up gradients between updates. Local."""
    check_version()
    return [each for each in optimizer._accumulated_gradients if each is not None]


@contextlib.contextmanager
def noticed_epochs(
    model: keras.Model, of_training: Callable[[Any], None], of_validation: Callable[[Any], None]
) -> Iterator[None]:
    """Show the iterators over epochs of a `fit` in the block before they are used. Local.

    That of the training data is shown once, that of the validation data before each validation.
    """
    check_version()
    plain = model._maybe_symbolic_build
    known: list[Any] = []

    def build(*args: Any, **kwargs: Any) -> None:
        plain(*args, **kwargs)
        epochs = kwargs.get("iterator")
        if not known:
            known.append(epochs)
            of_training(epochs)
        elif epochs is getattr(model, "_eval_epoch_iterator", None):
            of_validation(epochs)

    with replaced(model, "_maybe_symbolic_build", build):
        yield


def begin_next_epoch(epochs: Any, advance: Callable[[Iterator[Any]], Iterator[Any]]) -> None:
    """Begin the next epoch of an iterator over epochs now; Keras goes on with it later. Local.

    `advance` is given what the epoch yields, tuples of numbers of steps and, at last, the iterator
    of these steps; it returns what is left of it for Keras.
    """
    rest = advance(epochs._enumerate_iterator())

    def once() -> Iterator[Any]:
        del epochs._enumerate_iterator
        return rest

    epochs._enumerate_iterator = once


@contextlib.contextmanager
def replaced_epoch_logs(model: keras.Model, replace: Callable[[Any], Any]) -> Iterator[None]:
    """Replace the logs of the last step, {} without any, of which `fit` makes an epoch's. Local."""
    check_version()
    plain = model._get_metrics_result_or_logs
    with replaced(model, "_get_metrics_result_or_logs", lambda logs: plain(replace(logs))):
        yield


@contextlib.contextmanager
def replaced_backup(
    callback: keras.callbacks.BackupAndRestore, save: Callable[[], None]
) -> Iterator[None]:
    """Let a `BackupAndRestore` call `save` when a backup is due, and do nothing else. Local."""
    check_version()
    with (
        replaced(callback, "_save_model", save),
        replaced(callback, "_load_model", lambda: None),
        replaced(callback, "delete_checkpoint", False),
    ):
        yield


KINDS_OF_INPUT = frozenset(
    {
        *("ArrayDataAdapter", "TFDatasetAdapter", "PyDatasetAdapter", "GeneratorDataAdapter"),
        *("TorchDataLoaderAdapter", "GrainDatasetAdapter"),
    }
)
"""The adapters of Keras whose data ranks can share; another kind of data is refused."""


def kinds_of_input_in_keras() -> set[str]:
    """Return the names of the adapters that this Keras has. Local."""
    classes = [each for each in vars(_data_adapters).values() if isinstance(each, type)]
    return {each.__name__ for each in classes if issubclass(each, DataAdapter)}


def is_loader(data: Any) -> bool:
    """Return whether `data` is a `DataLoader` of torch or grain, or a dataset of grain. Local."""
    check_version()
    is_of_grain = _is_grain_dataset is not None and _is_grain_dataset(data)
    return bool(is_of_grain or _is_torch_loader(data))


def adapter_of(data: Any, class_weight: dict[int, float] | None, *, shuffle: bool = False) -> Any:
    """Return Keras' own adapter of a dataset, or of what makes batches. Local."""
    check_version()
    return _get_data_adapter(data, class_weight=class_weight, shuffle=shuffle)
