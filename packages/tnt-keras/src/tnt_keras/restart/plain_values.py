"""Plain values as JSON with arrays beside it, and bytes that hold both and tell if they are whole.

No code is stored, and every value keeps its type.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import sys
import types
import zipfile
from collections.abc import Callable, Sequence
from typing import IO, Any

import keras
import numpy as np
import tensorflow as tf

from tnt_keras.step.replicas import array_of

_FORMAT = "backup of tnt-keras"
_VERSION = 1
_HEADER = "header.json"
_PLAIN = (type(None), bool, int, float, str)
_LARGE = (keras.layers.Layer, keras.optimizers.Optimizer, tf.data.Dataset, tf.Module)
_SEQUENCES: dict[str, Callable[[Any], Any]] = {"list": list, "tuple": tuple, "set": set}


class NotPlainError(TypeError):
    """A value is, or contains, an object that is not plain."""


def encode(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Return what `json` can write of a value; its arrays are added to `arrays`, not copied. Local.

    Plain are None, numbers, texts, arrays, eager tensors, values of variables, functions that a
    module has by their name, and lists, tuples, sets and dicts of these; else there is a
    `NotPlainError`.
    """
    if type(value) in _PLAIN:
        return value
    for name, kind in _SEQUENCES.items():
        if type(value) is kind:
            return {name: [encode(one, arrays) for one in value]}
    if type(value) is dict:
        return {"dict": [[encode(key, arrays), encode(value[key], arrays)] for key in value]}
    if _is_named_function(value):
        return {"function": [value.__module__, value.__name__]}
    arrays.append(_as_array(value))
    return {_kind_of(value): len(arrays) - 1}


def decode(encoded: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """Return the value that `encode` was given; a variable's is an array. Local."""
    if not isinstance(encoded, dict):
        return encoded
    [(kind, content)] = encoded.items()
    if kind in _SEQUENCES:
        return _SEQUENCES[kind](decode(one, arrays) for one in content)
    if kind == "dict":
        return {decode(key, arrays): decode(one, arrays) for key, one in content}
    if kind == "function":
        module, name = content
        return getattr(sys.modules[module], name)
    array = arrays[content].copy()
    if kind == "tensor":
        return tf.constant(array)
    return array[()] if kind == "scalar" else array


def digest_of(value: Any) -> Any:
    """Return a digest, which tells a value from others, or the value itself. Local.

    What is not plain has the digest of its pickle, in which models and the like count as the
    objects that they are, metrics and variables by their values; what cannot be pickled has none.
    """
    arrays: list[np.ndarray[Any, Any]] = []
    try:
        encoded = encode(value, arrays)
    except NotPlainError:
        return _digest_of_pickle(value)
    digest = hashlib.sha256(json.dumps(encoded).encode())
    for array in arrays:
        digest.update(f"{array.dtype.name}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.digest()


class _Pickler(pickle.Pickler):
    def persistent_id(self, obj: Any) -> Any:
        if isinstance(obj, keras.metrics.Metric):
            return id(obj), [array_of(variable).tobytes() for variable in obj.variables]
        if is_variable(obj):
            return id(obj), array_of(obj).tobytes()
        return id(obj) if isinstance(obj, _LARGE) else None


def _digest_of_pickle(value: Any) -> Any:
    stream = io.BytesIO()
    try:
        _Pickler(stream).dump(value)
    except Exception:  # whatever objects raise that cannot be pickled
        return value
    return hashlib.sha256(stream.getvalue()).digest()


def is_variable(value: Any) -> bool:
    """Return whether a value is a variable, which stays and is assigned to. Local."""
    return hasattr(value, "assign") and hasattr(value, "dtype")


def _is_named_function(value: Any) -> bool:
    """Return whether a function can be found by its name, such as `keras.ops.less`."""
    if not isinstance(value, types.FunctionType):
        return False
    return getattr(sys.modules.get(value.__module__), value.__name__, None) is value


def _kind_of(value: Any) -> str:
    if isinstance(value, np.generic):
        return "scalar"
    return "tensor" if tf.is_tensor(value) and not is_variable(value) else "array"


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


class DamagedError(ValueError):
    """Bytes are no container, or not a whole one."""


def write_container(
    stream: IO[bytes], content: Any, arrays: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Write JSON and arrays, of any dtype of TensorFlow but strings, to a stream. Local."""
    described = [[array.dtype.name, list(array.shape)] for array in arrays]
    header = {"format": _FORMAT, "version": _VERSION, "content": content, "arrays": described}
    # Each entry of an archive has a checksum, and its table of contents is at the end.
    with zipfile.ZipFile(stream, "w") as archive:
        for number, array in enumerate(arrays):
            with archive.open(str(number), "w", force_zip64=True) as entry:
                entry.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        archive.writestr(_HEADER, json.dumps(header))


def read_container(stream: IO[bytes]) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """Read JSON and arrays from a stream; what is not whole is a `DamagedError`. Local."""
    try:
        with zipfile.ZipFile(stream) as archive:
            # A container may hold others, and one of these may end where the file was cut off.
            if min(entry.header_offset for entry in archive.infolist()) != 0:
                raise DamagedError("it is not whole")
            header = json.loads(archive.read(_HEADER))
            if header["format"] != _FORMAT or header["version"] != _VERSION:
                raise DamagedError(f"it is of version {header['version']}, not {_VERSION}")
            arrays = [
                np.frombuffer(
                    bytearray(archive.read(str(number))),
                    tf.as_dtype(name).as_numpy_dtype,  # also bfloat16 and its relatives
                ).reshape(shape)
                for number, (name, shape) in enumerate(header["arrays"])
            ]
            return header["content"], arrays
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{type(error).__name__}: {error}") from None
