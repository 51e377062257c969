"""Files of several ranks: written whole or not at all, read although the master alone sees them."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from tnt_keras.calls.current_call import on_one_rank
from tnt_keras.calls.messages import allgather, broadcast
from tnt_keras.calls.together import gather, together
from tnt_keras.process.rank import MASTER_RANK, get_size, is_master_rank

_Result = TypeVar("_Result")
_Path = str | os.PathLike[str]
_PIECE_BYTES = 64 << 20  # in one message, so that a large file needs little memory


def write_atomically(
    path: _Path,
    write_to: Callable[[pathlib.Path], None],
    *,
    overwrite: bool,
    on_all_ranks: bool,
    makes_folders: bool = False,
) -> None:
    """Write a file on the master rank, or on all, while the others wait. Collective.

    `write_to` writes it, and perhaps others, under its name in a folder beside its place, from
    where all are moved: neither a reader nor a run that is killed leaves half a file. A callback
    that runs on this rank alone writes without the others.
    """
    path, is_alone = pathlib.Path(path), on_one_rank.get() is not None

    def write_if_asked() -> None:
        if on_all_ranks or is_alone or is_master_rank():
            write_here(path, write_to, overwrite=overwrite, makes_folders=makes_folders)

    if is_alone:
        write_if_asked()
    else:
        together("write", write_if_asked, subject=str(path))


def write_here(
    path: pathlib.Path,
    write_to: Callable[[pathlib.Path], None],
    *,
    overwrite: bool,
    makes_folders: bool,
) -> None:
    """Write a file on this rank, whole or not at all, and refuse to replace a folder. Local."""
    if path.exists() and not overwrite:
        raise FileExistsError(f"{path} exists. Pass overwrite=True to replace it.")
    if makes_folders:
        path.parent.mkdir(parents=True, exist_ok=True)
    elif not path.parent.is_dir():
        raise FileNotFoundError(
            f"{path.name} cannot be written: the folder {path.parent} does not exist."
        )
    with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        try:
            write_to(pathlib.Path(folder) / path.name)
        except ValueError as error:  # of Keras, about the name; a user does not know the folder
            error.args = (str(error).replace(folder, str(path.parent)),)
            raise
        # The named file comes last: it may refer to others (shards of weights).
        sources = sorted(pathlib.Path(folder).iterdir(), key=lambda p: p.name == path.name)
        for source in sources:
            _require_no_folder(path.parent / source.name, instead_of=source)
        for source in sources:
            _move(source, path.parent / source.name)


def _require_no_folder(target: pathlib.Path, instead_of: pathlib.Path) -> None:
    if target.is_dir() and not instead_of.is_dir():
        raise IsADirectoryError(
            errno.EISDIR,
            "There is a folder with the name of the file to write; it is kept",
            str(target),
        )


def _move(source: pathlib.Path, target: pathlib.Path) -> None:
    """Put a file or folder in its place; what else is in a folder of that name stays there."""
    if not target.is_dir():
        os.replace(source, target)
    elif not target.is_symlink() and _holds_nothing_but(source, target):
        os.rename(target, source.with_name(f".{source.name}.replaced"))
        os.rename(source, target)
    else:
        for inner in sorted(source.iterdir(), key=pathlib.Path.is_file):
            _require_no_folder(target / inner.name, instead_of=inner)
            _move(inner, target / inner.name)


def _holds_nothing_but(source: pathlib.Path, target: pathlib.Path) -> bool:
    """Whether all that the folder `target` holds is in `source` as well, and so replaced."""
    return all(os.path.lexists(source / path.relative_to(target)) for path in target.rglob("*"))


def read_from_master(path: _Path, read: Callable[[_Path], _Result]) -> _Result:
    """Read on all ranks what the master rank sees under a path. Collective.

    Ranks that see the very same file (in a common file system) read it themselves; to others the
    master sends its bytes, and `read` gets a temporary copy. What lies elsewhere (`gs://...`) every
    rank reads there. `path` may be a folder, or an index of weights with its files beside.
    """
    subject = os.fsdecode(path)
    if get_size() == 1 or "://" in subject:
        return together("read", lambda: read(path), subject=subject)

    def found() -> bytes:
        if is_master_rank() and not os.path.exists(path):
            read(path)  # its error says what is missing
        files = _files_of(path) if is_master_rank() else []
        return json.dumps([pathlib.Path(path).name, files]).encode()

    of_ranks = gather("files of the master", found, f"could not read {subject}")
    name, described = json.loads(of_ranks[MASTER_RANK])
    files = [_File(*fields) for fields in described]
    sees = _sees(path, files)
    if all(map(ord, allgather("whether the files are seen", bytes([sees])))):
        return together("read", lambda: read(path), subject=subject)
    folder = None
    errors: list[OSError] = []  # kept until all bytes are exchanged: others wait for this rank
    with contextlib.ExitStack() as stack:
        if not sees:
            with _kept(errors):
                copies = tempfile.TemporaryDirectory(prefix="tarantella-")
                folder = pathlib.Path(stack.enter_context(copies))
        for file in files:
            _exchange(file, pathlib.Path(path).parent, folder, errors)

        def read_here() -> _Result:
            if errors:
                raise errors[0]
            return read(pathlib.Path(path) if folder is None else folder / name)

        knows_more = None if sees else MASTER_RANK  # a copy of the master's
        return together("read", read_here, subject=subject, knows_more=knows_more)


class _File(NamedTuple):
    """A file, and what distinguishes it from others of its name."""

    name: str  # seen from the folder that holds the path
    num_bytes: int
    inode: int
    modified_ns: int


@contextlib.contextmanager
def _kept(errors: list[OSError]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        errors.append(error)


def _exchange(
    file: _File, source: pathlib.Path, folder: pathlib.Path | None, errors: list[OSError]
) -> None:
    """Send a file from the master rank to all others, which write it to a folder. Collective."""

    def write(piece: bytes) -> None:
        if folder is not None and not errors:
            with _kept(errors):
                (folder / file.name).parent.mkdir(parents=True, exist_ok=True)
                with open(folder / file.name, "ab") as stream:
                    stream.write(piece)

    write(b"")  # files may be empty
    for begin in range(0, file.num_bytes, _PIECE_BYTES):
        piece = np.zeros(min(_PIECE_BYTES, file.num_bytes - begin), np.uint8)
        if is_master_rank():
            with _kept(errors), open(source / file.name, "rb") as stream:
                stream.seek(begin)
                if stream.readinto(piece.data) != len(piece):
                    raise OSError(f"{source / file.name} was changed while it was read.")
        write(broadcast("bytes of a file", [piece])[0].tobytes())


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
    described = ((name, os.stat(path.parent / name)) for name in names)
    return [_File(name, s.st_size, s.st_ino, s.st_mtime_ns) for name, s in described]


def _sees(path: _Path, files: list[_File]) -> bool:
    """Return whether the path leads to the very files of the master."""
    try:
        return _files_of(path) == files
    except Exception:  # whatever is wrong with it, the master has read its own
        return False
