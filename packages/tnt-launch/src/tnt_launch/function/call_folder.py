"""The files by which a function reaches the ranks, and results and exceptions come back."""

# They are pickled, lie in a folder of their owner alone, and appear with their whole content.

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any


@dataclass(frozen=True)
class Call:
    """A call of a function: what a rank does."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


@dataclass(frozen=True)
class RaisedError:
    """An exception that left the function on a rank."""

    time_s: float  # on the clock of `time.monotonic`, which all processes of a host share
    traceback: str
    pickled: bytes | None  # `None` if it cannot be pickled


class CallFolder:
    """The files of one call; all methods are local."""

    def __init__(self, path: str) -> None:
        self.path = path

    def write_call(self, call: Call) -> None:
        """Store what the ranks are to do, with the arguments and the sources of this program."""
        from tnt_launch.function import pickles  # here: `tarantella --help` need not wait for it

        def write(file: IO[bytes]) -> None:
            pickle.dump((sys.argv, _sources_without_a_file()), file)
            pickles.dump(call, file)

        try:
            self._write("call", write)
        except OSError:
            raise
        except Exception as error:
            raise TypeError(
                f"{name_of(call.function)} cannot be sent to the ranks, since something that it "
                f"uses cannot be pickled: {error}. Create it inside the function: data sets, open "
                "files, locks and the like belong to one process."
            ) from error

    def read_call(self) -> Call:
        """Return what `write_call` stored, and take the program's arguments and sources over."""
        with open(self._path("call"), "rb") as file:
            sys.argv, sources = pickle.load(file)
            _add_sources(sources)
            call: Call = pickle.load(file)
            return call

    def write_result(self, rank: int, result: Any) -> None:
        """Store what the function returned on a rank."""
        from tnt_launch.function import pickles

        try:
            self._write(f"result-{rank}", lambda file: pickles.dump(result, file))
        except OSError:
            raise
        except Exception as error:
            raise TypeError(
                f"rank {rank}: what the function returned, of type {type(result).__qualname__}, "
                f"cannot be pickled: {error}. Return numbers, arrays, or names of files."
            ) from error

    def read_result(self, rank: int) -> Any:
        """Return what the function returned on a rank."""
        with open(self._path(f"result-{rank}"), "rb") as file:
            return pickle.load(file)

    def write_error(self, rank: int, error: RaisedError) -> None:
        """Store the exception of a rank."""
        self._write(f"error-{rank}", lambda file: pickle.dump(error, file))

    def read_error(self, rank: int) -> RaisedError | None:
        """Return the exception of a rank, `None` if it has raised none."""
        try:
            with open(self._path(f"error-{rank}"), "rb") as file:
                error: RaisedError = pickle.load(file)
                return error
        except FileNotFoundError:
            return None

    def _path(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _write(self, name: str, write: Callable[[IO[bytes]], None]) -> None:
        path = self._path(name)
        part = path + ".part"
        try:
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                write(file)
            os.rename(part, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
            raise


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function for messages."""
    return getattr(function, "__qualname__", None) or repr(function)


def _sources_without_a_file() -> dict[str, list[str]]:
    """Return the lines of notebook cells, by the names under which tracebacks know them."""
    # Ranks need them for tracebacks, and TensorFlow for the functions that it traces: without the
    # source of a `tf.function`, an `if` in it is not part of the graph.
    import linecache

    entries = {name: entry for name, entry in linecache.cache.items() if len(entry) == 4}
    return {name: entry[2] for name, entry in entries.items() if not os.path.exists(name)}


def _add_sources(sources: Mapping[str, list[str]]) -> None:
    import linecache

    for name, lines in sources.items():  # no time of change: such an entry is never looked for
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
