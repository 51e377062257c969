"""Bytes that hold JSON and arrays, and tell whether they are whole."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from typing import IO, Any

import numpy as np
import tensorflow as tf

_FORMAT = "backup of tnt-keras"
_VERSION = 1
_HEADER = "header.json"


class DamagedError(ValueError):
    """Bytes are no container, or not a whole one."""


def write_container(
    stream: IO[bytes], content: Any, arrays: Sequence[np.ndarray[Any, Any]]
) -> None:
    """Write JSON and arrays to a stream. Local.

    Args:
        stream: A file that is open for writing bytes.
        content: Anything that JSON knows.
        arrays: Of any dtype of TensorFlow but strings.
    """
    described = [[array.dtype.name, list(array.shape)] for array in arrays]
    header = {"format": _FORMAT, "version": _VERSION, "content": content, "arrays": described}
    # Each entry of an archive has a checksum, and its table of contents is at the end.
    with zipfile.ZipFile(stream, "w") as archive:
        for number, array in enumerate(arrays):
            with archive.open(str(number), "w", force_zip64=True) as entry:
                entry.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        archive.writestr(_HEADER, json.dumps(header))


def read_container(stream: IO[bytes]) -> tuple[Any, list[np.ndarray[Any, Any]]]:
    """Read JSON and arrays from a stream. Local.

    Raises:
        DamagedError: If it is not what `write_container` has written; says why.
    """
    try:
        with zipfile.ZipFile(stream) as archive:
            # A container may hold others, and one of these may end where the file was cut off.
            if min(entry.header_offset for entry in archive.infolist()) != 0:
                raise DamagedError("it is not whole")
            header = json.loads(archive.read(_HEADER))
            if header["format"] != _FORMAT or header["version"] != _VERSION:
                raise DamagedError(f"it is of version {header['version']}, not {_VERSION}")
            arrays = [
                np.frombuffer(bytearray(archive.read(str(number))), _dtype(name)).reshape(shape)
                for number, (name, shape) in enumerate(header["arrays"])
            ]
            return header["content"], arrays
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError) as error:
        if isinstance(error, DamagedError):
            raise
        raise DamagedError(f"{type(error).__name__}: {error}") from None


def _dtype(name: str) -> Any:
    return np.dtype(tf.as_dtype(name).as_numpy_dtype)  # also bfloat16 and its relatives
