"""Backups: plain values as bytes that tell if they are whole, and the files that hold these.

No code is stored, and every value keeps its type. There is the last file, and perhaps the one
before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pathlib
import pickle
import shutil
import sys
import types
import zipfile
from collections.abc import Callable
from typing import IO, Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.calls.files import read_from_master, write_atomically
from tnt_keras.calls.messages import allgather_json
from tnt_keras.calls.together import together
from tnt_keras.process.rank import MASTER_RANK, is_master_rank, logger
from tnt_keras.step.replicas import array_of

VALUE = "value of tnt-keras, version 2"
_PLAIN = (type(None), bool, int, float, str, bytes, list, tuple, set, dict)
_LARGE = (keras.layers.Layer, keras.optimizers.Optimizer, tf.data.Dataset, tf.Module)
_LATEST, _PREVIOUS = "latest.tnt_backup", "previous.tnt_backup"
_OF_KERAS = "latest.weights.h5"


class BackupFiles:
    """The backups in one folder, which the master rank writes and others need not see. Collective.

    A file is written under another name first: a run that is killed leaves the old or the new one.
    """

    def __init__(self, folder: str | os.PathLike[str], keeps_previous: bool) -> None:
        if "://" in os.fsdecode(folder):
            raise ValueError(
                "`backup_dir` must be a folder that the master rank can rename files in, since a "
                f"backup must be whole at any time. Received: backup_dir={folder!r}."
            )
        self._folder = pathlib.Path(folder)
        self._keeps_previous = keeps_previous

    def prepare(self) -> None:
        """Make the folder, and remove what a killed run has left half written."""

        def prepare() -> None:
            self._folder.mkdir(parents=True, exist_ok=True)
            for half_written in self._folder.glob(f".{_LATEST}.*"):
                shutil.rmtree(half_written)

        self._on_master("write", prepare)

    def read(self) -> Any:
        """Return the last whole backup, None without any; refuse one of Keras' own."""
        names = (_LATEST, _PREVIOUS, _OF_KERAS) if is_master_rank() else ()
        found = [name for name in names if (self._folder / name).exists()]
        found = allgather_json("backups", found)[MASTER_RANK]
        if found == [_OF_KERAS]:
            raise ValueError(
                f"The backup in {self._folder} was written by plain Keras, which saves neither "
                "the position in the data nor the state of callbacks. Remove the folder, or load "
                f"{_OF_KERAS} with `model.load_weights` and pass another `backup_dir`."
            )
        errors = []
        for name in (name for name in found if name != _OF_KERAS):
            try:
                backup = read_from_master(self._folder / name, _read)
            except (DamagedError, OSError) as error:
                errors.append(f"{name}: {error}.")
                continue
            if name != _LATEST:
                logger.warning(
                    "%s The run continues from the previous backup, %s. [older-backup]",
                    " ".join(errors) or f"{_LATEST} is missing.",
                    self._folder / name,
                )
            return backup
        if errors:
            raise ValueError(
                f"The backup in {self._folder} is damaged, so the run cannot continue. "
                f"{' '.join(errors)} Remove the folder to start from the beginning. With "
                "double_checkpoint=True, the previous backup is also kept."
            )
        return None

    def write(self, backup: Any) -> None:
        """Replace the last backup."""
        latest = self._folder / _LATEST

        def write_to(path: pathlib.Path) -> None:
            with open(path, "wb") as stream:
                write_container(stream, backup)
                stream.flush()
                os.fsync(stream.fileno())  # else a computer that fails may have renamed a torn file
            if self._keeps_previous and latest.exists():
                os.replace(latest, self._folder / _PREVIOUS)

        write_atomically(latest, write_to, overwrite=True, on_all_ranks=False)

    def delete(self) -> None:
        """Remove the backups, and the folder if nothing else is in it."""

        def delete() -> None:
            for name in (_PREVIOUS, _LATEST):  # a run that is killed meanwhile ends once more
                (self._folder / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._folder.rmdir()

        self._on_master("delete", delete)

    def _on_master(self, what: str, action: Callable[[], None]) -> None:
        subject = os.fspath(self._folder)
        together(what, action if is_master_rank() else lambda: None, subject=subject)


def _read(path: str | os.PathLike[str]) -> Any:
    with open(path, "rb") as stream:
        return read_container(stream)


class NotPlainError(TypeError):
    """A value is, or contains, an object that is not plain."""


class DamagedError(ValueError):
    """Bytes are no container, or not a whole one."""


def write_container(stream: IO[bytes], value: Any) -> None:
    """Write a plain value to a stream. Local.

    Plain are None, numbers, texts, bytes, arrays of any dtype of TensorFlow but strings, eager
    tensors, values of variables, functions that a module has by their name, and lists, tuples, sets
    and dicts of these; else there is a `NotPlainError`.
    """
    pickled = io.BytesIO()
    pickler = _Pickler(pickled)
    pickler.dump(value)
    # Each entry of an archive has a checksum, and its table of contents is at the end.
    with zipfile.ZipFile(stream, "w") as archive:
        for number, array in enumerate(pickler.arrays):
            with archive.open(str(number), "w", force_zip64=True) as entry:
                entry.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        archive.writestr(VALUE, pickled.getvalue())


def read_container(stream: IO[bytes]) -> Any:
    """Return the value in a stream, of variables arrays; what is damaged is an error. Local."""
    try:
        with zipfile.ZipFile(stream) as archive:
            # A container may hold others, and one of these may end where the file was cut off.
            if min(entry.header_offset for entry in archive.infolist()) != 0:
                raise DamagedError("it is incomplete")
            return _Unpickler(archive).load()
    except (zipfile.BadZipFile, pickle.UnpicklingError, LookupError, TypeError) as error:
        raise DamagedError(f"{type(error).__name__}: {error}") from None


def packed(value: Any) -> bytes:
    """Return a plain value as bytes. Local."""
    stream = io.BytesIO()
    write_container(stream, value)
    return stream.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the value of which `packed` made bytes. Local."""
    return read_container(io.BytesIO(data))


def is_plain(value: Any) -> bool:
    """Return whether a container can hold a value. Local."""
    try:
        _Pickler(io.BytesIO()).dump(value)
    except NotPlainError:
        return False
    return True


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable, which stays and is assigned to. Local."""
    return hasattr(value, "assign") and hasattr(value, "dtype")


class _Pickler(pickle.Pickler):
    """Pickles plain values, and keeps arrays apart, which are not copied."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(stream, protocol=4)
        self.arrays: list[np.ndarray[Any, Any]] = []

    def persistent_id(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return None
        if _is_named(value):
            return "function", value.__module__, value.__name__
        array = _as_array(value)
        self.arrays.append(array)
        is_tensor = tf.is_tensor(value) and not is_variable(value)
        kind = "scalar" if isinstance(value, np.generic) else "tensor" if is_tensor else "array"
        return kind, len(self.arrays) - 1, array.dtype.name, array.shape


class _Unpickler(pickle.Unpickler):
    """Makes no objects but plain ones and those of an archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        super().__init__(io.BytesIO(archive.read(VALUE)))
        self._archive = archive

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")

    def persistent_load(self, kept: Any) -> Any:
        kind, place, name, *shape = kept
        if kind == "function":
            return _named(place, name)
        data = bytearray(self._archive.read(str(place)))
        dtype = tf.as_dtype(name).as_numpy_dtype  # also bfloat16 and its relatives
        array = np.frombuffer(data, dtype).reshape(*shape)
        if kind == "tensor":
            return tf.constant(array)
        return array[()] if kind == "scalar" else array


def _named(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def _is_named(value: Any) -> bool:
    """Return whether a value is a function that has a name in a module, as `keras.ops.less`."""
    is_function = isinstance(value, types.FunctionType)
    return is_function and _named(value.__module__, value.__name__) is value


def _as_array(value: Any) -> np.ndarray[Any, Any]:
    if is_variable(value) or tf.is_tensor(value):
        try:
            array = array_of(value)
        except (AttributeError, TypeError, ValueError, tf.errors.InvalidArgumentError):
            raise NotPlainError(type(value).__name__) from None  # symbolic, ragged or sparse
    elif isinstance(value, (np.generic, np.ndarray)):
        array = np.asarray(value)
    else:
        raise NotPlainError(type(value).__name__)
    try:
        tf.as_dtype(array.dtype.name)
    except TypeError:
        raise NotPlainError(f"array of {array.dtype}") from None
    return array


class _Digester(pickle.Pickler):
    """Pickles any objects: large ones by what they are, metrics and variables by their values."""

    def persistent_id(self, value: Any) -> Any:
        if isinstance(value, keras.metrics.Metric):
            return id(value), [array_of(variable).tobytes() for variable in value.variables]
        if is_variable(value):
            return id(value), array_of(value).tobytes()
        return id(value) if isinstance(value, _LARGE) else None


def digest_of(value: Any) -> Any:
    """Return a digest, which tells a value from others, or the value if it has no pickle. Local."""
    digest = hashlib.sha256()
    try:
        _Digester(types.SimpleNamespace(write=digest.update)).dump(value)
    except Exception:  # whatever objects raise that cannot be pickled
        return value
    return digest.digest()
