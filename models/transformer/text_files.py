"""Read and write text files of one sentence a line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path


def read_lines(path: str | Path) -> list[str]:
    r"""Return the lines of a UTF-8 text, without their ends, which are `\n` or `\r\n` only.

    Python's own `splitlines` also cuts at characters that occur within sentences, such as U+2028,
    and the lines of two languages would no longer belong together.

    Raises:
        ValueError: If the file is no UTF-8.
    """
    try:
        lines = Path(path).read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        number = error.object[: error.start].count(b"\n") + 1
        raise ValueError(
            f"Line {number} of {path} is no UTF-8: convert the file, for instance by iconv."
        ) from error
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def write_lines(path: str | Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, atomically."""
    write_atomically(path, "".join(f"{line}\n" for line in lines).encode())


def write_atomically(path: str | Path, content: bytes) -> None:
    """Write a file such that it is there as a whole or not at all; make its folder if need be."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(scratch, 0o666 & ~umask)
        os.replace(scratch, path)
    except BaseException:
        os.unlink(scratch)
        raise
