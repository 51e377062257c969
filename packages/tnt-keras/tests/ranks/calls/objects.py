"""What ranks do with objects, in the order of the master rank, and what they print."""

from __future__ import annotations

import contextlib
import io
import pathlib
import time
from typing import Any

import tnt_keras


def exchanged(num_bytes: int) -> tuple[Any, Any, Any]:
    """Objects of each rank: of all, of the master, and of the last one."""
    rank, size = tnt_keras.get_rank(), tnt_keras.get_size()
    own = {"rank": rank, "bytes": bytes([rank]) * num_bytes * rank, "none": None}
    return (
        tnt_keras.allgather_object(own),
        tnt_keras.broadcast_object([rank, "text"]),
        tnt_keras.broadcast_object(own if rank == size - 1 else None, root=size - 1),
    )


def order(folder: str) -> list[str]:
    """What there is when each rank enters the block; the master takes its time there."""
    with tnt_keras.master_first():
        found = sorted(path.name for path in pathlib.Path(folder).iterdir())
        if tnt_keras.is_master_rank():
            time.sleep(0.2)
            (pathlib.Path(folder) / "of the master").touch()
    return found


def late_master(seconds: float) -> bool:
    """Whether a rank has entered the block; the master joins the others as late as that."""
    with tnt_keras.master_first():
        if tnt_keras.is_master_rank():
            time.sleep(seconds)
    return True


def failing_block() -> tuple[str, bool]:
    """The error of each rank, and whether it was inside of the block."""
    was_inside = False
    try:
        with tnt_keras.master_first():
            was_inside = True
            raise OSError("no space left")
    except (OSError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}", was_inside


def wrong_root() -> str:
    try:
        tnt_keras.broadcast_object(1, root=7)
    except ValueError as error:
        return str(error)
    return ""


class Unloadable:
    """Has a pickle of which no object can be made."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def errors_of_sending(kind: str, root: int) -> list[str]:
    """The errors for a lambda, or what has no object, of one rank; afterwards ranks go on."""
    of_root = Unloadable() if kind == "unloadable" else lambda: 1
    own = of_root if tnt_keras.get_rank() == root else 2
    errors = []
    for send in (
        lambda: tnt_keras.broadcast_object(own, root=root),
        lambda: tnt_keras.allgather_object(own),
    ):
        try:
            send()
        except TypeError as error:
            errors.append(f"{type(error).__name__}: {error}")
    return [*errors, *tnt_keras.allgather_object("goes on")]


def printed() -> str:
    with contextlib.redirect_stdout(io.StringIO()) as output:
        tnt_keras.print("epoch", 3, sep=": ")
    return output.getvalue()
