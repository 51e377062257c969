"""Read and write text files of one sentence a line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from models.shared.atomic_write import write_atomically


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
