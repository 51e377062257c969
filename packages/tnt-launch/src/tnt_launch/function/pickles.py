"""Pickle functions of notebooks and scripts by their code, which keeps the name of its file."""

# That is how a traceback, and TensorFlow's AutoGraph, find the lines of a function on a rank.
# cloudpickle writes the same placeholder for each file from its release 3.1.3 on.

from __future__ import annotations

import collections
import io
import types
from collections.abc import Callable
from typing import IO, Any, ClassVar

import cloudpickle

_reduce_code: Callable[[types.CodeType], Any] = cloudpickle.Pickler.dispatch_table[types.CodeType]


def dump(value: Any, file: IO[bytes]) -> None:
    """Write a value, also functions and classes of no module, for `pickle.load`. Local."""
    _Pickler(file).dump(value)


def dumps(value: Any) -> bytes:
    """Return a value as `dump` writes it. Local."""
    stream = io.BytesIO()
    dump(value, stream)
    return stream.getvalue()


def _reduce_with_file_name(code: types.CodeType) -> Any:
    make, arguments, *_ = _reduce_code(code)
    return _of_file, (code.co_filename, make, arguments)


def _of_file(
    name: str, make: Callable[..., types.CodeType], arguments: tuple[Any, ...]
) -> types.CodeType:
    return make(*arguments).replace(co_filename=name)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    dispatch_table: ClassVar[Any] = collections.ChainMap(
        {types.CodeType: _reduce_with_file_name}, cloudpickle.Pickler.dispatch_table
    )
