"""Files on all ranks: an error of one rank is that of all, and the master alone may see a file."""

from __future__ import annotations

import builtins
import contextlib
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tnt_keras.calls.errors import of_other_rank
from tnt_keras.calls.messages import allgather, allgather_json, attempt, broadcast
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size, is_master_rank

_Result = TypeVar("_Result")
_Path = str | os.PathLike[str]
_MADE_OF_TEXT = (OSError, ValueError, TypeError, RuntimeError, LookupError, AttributeError)
_PIECE_BYTES = 64 << 20  # in one message, so that a large file needs little memory


def run_together(
    verb: str, path: _Path, action: Callable[[], _Result], *, is_of_master: bool = False
) -> _Result:
    """Work on a file on this rank, and wait until every rank has done so. Collective.

    `action` must not wait for other ranks. A rank that fails raises its own error, others one of
    that class if it is Python's and made of a message, else an `OSError`. `is_of_master`: this rank
    works on a copy of the master's file; if the master fails too, its error says more.
    """
    if get_size() == 1:
        return action()

    def told(error: Exception) -> list[str]:
        text = f"{os.fspath(path)!s}: {type(error).__name__}: {error}"
        # Bytes of a file's name may be no text.
        return [type(error).__name__, text.encode(errors="backslashreplace").decode()]

    result: _Result
    result, error, of_ranks = attempt(f"end of {verb}", action, told)
    if error is not None and not (is_of_master and of_ranks[MASTER_RANK]):
        raise error
    for rank, failure in enumerate(of_ranks):
        if failure is not None:
            name, text = failure
            raise of_other_rank(
                _class_of(name), rank, f"Rank {get_rank()}: rank {rank} could not {verb} {text}"
            )
    return result


def _class_of(name: str) -> type[Exception]:
    """Return the class of that name, if it is one of Python itself that is made of a message."""
    named = getattr(builtins, name, OSError)
    is_made_of_text = isinstance(named, type) and issubclass(named, _MADE_OF_TEXT)
    return named if is_made_of_text and not issubclass(named, UnicodeError) else OSError


def read_from_master(path: _Path, read: Callable[[_Path], _Result]) -> _Result:
    """Read on all ranks what the master rank sees under a path. Collective.

    Ranks that see the very same file (in a common file system) read it themselves; to others the
    master sends its bytes, and `read` gets a temporary copy. What lies elsewhere (`gs://...`) every
    rank reads there. `path` may be a folder, or an index of weights with its files beside.
    """
    if get_size() == 1 or "://" in os.fsdecode(path):
        return run_together("read", path, lambda: read(path))
    found = run_together("read", path, lambda: _masters_files(path, read))
    own = [pathlib.Path(path).name, found]
    name, described = allgather_json("files of the master", own)[MASTER_RANK]
    files = [_File(*fields) for fields in described]
    sees = _sees(path, files)
    if all(map(ord, allgather("whether the files are seen", bytes([sees])))):
        return run_together("read", path, lambda: read(path))
    with _Transfer(path, makes_copy=not sees) as transfer:
        for file in files:
            transfer.exchange(file)
        return run_together(
            "read", path, lambda: read(transfer.readable_path(name)), is_of_master=not sees
        )


class _File(NamedTuple):
    """A file, and what distinguishes it from others of its name."""

    name: str  # seen from the folder that holds the path
    num_bytes: int
    inode: int
    modified_ns: int


class _Transfer:
    """Copies of the master's files on ranks that do not see them; removed at the end.

    An error is kept until all ranks have exchanged all bytes, since others wait for this one.
    """

    def __init__(self, path: _Path, *, makes_copy: bool) -> None:
        self._path = pathlib.Path(path)
        self._makes_copy = makes_copy
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._error: OSError | None = None

    def __enter__(self) -> _Transfer:
        """Make a folder for the copies."""
        if self._makes_copy:
            with self._keeping_errors():
                self._folder = tempfile.TemporaryDirectory(prefix="tarantella-")
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the copies."""
        if self._folder is not None:
            self._folder.cleanup()

    def exchange(self, file: _File) -> None:
        """Send a file from the master rank to all others. Collective."""
        self._write(file, b"")  # files may be empty
        for begin in range(0, file.num_bytes, _PIECE_BYTES):
            piece = np.zeros(min(_PIECE_BYTES, file.num_bytes - begin), np.uint8)
            if is_master_rank():
                self._read(file, begin, piece)
            self._write(file, broadcast("bytes of a file", piece).tobytes())

    def readable_path(self, name: str) -> pathlib.Path:
        """Return where this rank reads the master's file; raise what went wrong before. Local."""
        if self._error is not None:
            raise self._error
        return self._path if self._folder is None else self._target(name)

    def _target(self, name: str) -> pathlib.Path:
        assert self._folder is not None
        return pathlib.Path(self._folder.name) / name

    def _read(self, file: _File, begin: int, piece: np.ndarray[Any, Any]) -> None:
        with self._keeping_errors(), open(self._path.parent / file.name, "rb") as stream:
            stream.seek(begin)
            if stream.readinto(piece.data) != len(piece):
                raise OSError(f"{self._path.parent / file.name} was changed while it was read.")

    def _write(self, file: _File, piece: bytes) -> None:
        if self._folder is None or self._error is not None:
            return
        with self._keeping_errors():
            target = self._target(file.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(target, "ab") as stream:
                stream.write(piece)

    @contextlib.contextmanager
    def _keeping_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._error = self._error or error


def _masters_files(path: _Path, read: Callable[[_Path], Any]) -> list[_File]:
    """Return, on the master, the files that are read; a missing one is an error of the reader."""
    if not is_master_rank():
        return []
    if not os.path.exists(path):
        read(path)
    return _files_of(path)


def _files_of(path: _Path) -> list[_File]:
    """Return the files that are read together with one, or are in a folder."""
    path = pathlib.Path(path)
    names = [path.name]
    if path.is_dir():
        below = sorted(file for file in path.rglob("*") if file.is_file())
        names = [str(file.relative_to(path.parent)) for file in below]
    elif path.name.endswith("weights.json"):
        shards = json.loads(path.read_text())["weight_map"].values()
        of_shards = {name for shard in shards for name in np.atleast_1d(shard).tolist()}
        names += sorted(path.with_name(name).name for name in of_shards)  # no other folders
    return [_describe(path.parent, name) for name in names]


def _describe(folder: pathlib.Path, name: str) -> _File:
    status = os.stat(folder / name)
    return _File(name, status.st_size, status.st_ino, status.st_mtime_ns)


def _sees(path: _Path, files: list[_File]) -> bool:
    """Return whether the path leads to the very files of the master."""
    try:
        return _files_of(path) == files
    except Exception:  # whatever is wrong with it, the master has read its own
        return False
