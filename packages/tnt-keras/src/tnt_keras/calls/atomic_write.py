"""Write files from several ranks: once, completely or not at all."""

from __future__ import annotations

import errno
import os
import pathlib
import tempfile
from collections.abc import Callable

from tnt_keras.calls.current_call import what_is_alone
from tnt_keras.calls.files_of_ranks import run_together
from tnt_keras.process.rank import is_master_rank


def write_atomically(
    path: str | os.PathLike[str],
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
    path = pathlib.Path(path)
    if what_is_alone() is not None:
        write_here(path, write_to, overwrite=overwrite, makes_folders=makes_folders)
        return

    def write_if_asked() -> None:
        if on_all_ranks or is_master_rank():
            write_here(path, write_to, overwrite=overwrite, makes_folders=makes_folders)

    run_together("write", path, write_if_asked)


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
        raise FileNotFoundError(f"The folder {path.parent} does not exist, to write {path.name}.")
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
            errno.EISDIR, "A folder has the name of the file to write, and is kept", str(target)
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
