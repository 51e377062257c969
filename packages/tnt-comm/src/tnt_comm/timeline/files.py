"""Where a trace and the parts of its ranks are; write them, and join the parts."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import select
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tnt_comm.errors import CommError
from tnt_comm.timeline.render import (
    HEAD,
    INFO_HEAD,
    RECORDS_HEAD,
    SEPARATOR,
    TAIL,
    process_mark,
    process_names,
    render_part,
)

_MOST_LINKS = 40  # as the kernel follows
_LONGEST_WAIT_S = 5.0  # for who reads a pipe, and for another process that joins


@dataclass(frozen=True)
class TracePaths:
    """Where a trace is written, and where the parts of ranks lie until they are joined."""

    path: str  # absolute; a link to a regular file has been followed
    parts: str  # begin of the names of the parts
    # By the whole trace, if it is a regular file, or none yet. A device or a pipe is written to,
    # and stays what it is.
    is_replaced: bool = True

    def part_of(self, rank: int) -> str:
        """Return where a rank writes its part. Local."""
        return f"{self.parts}.rank{rank}"


def trace_paths(path: str, job: str) -> TracePaths:
    """Return the paths that a path names. Local.

    Parts are beside a regular file, and in the folder for temporary files for anything else; `job`
    then tells those of different jobs apart. A folder, a link to itself and a link of another user,
    root aside, are a `ValueError`.
    """
    named = os.path.join(os.getcwd(), path)  # the program may change its folder before the end
    target = _without_links(named)
    if os.path.isdir(named):
        raise ValueError("it is a folder.")
    if not os.path.exists(named) or os.path.isfile(named):
        return TracePaths(target, target)
    # Under its name: what the link of a descriptor in /proc leads to, such as pipe:[3], is no path.
    return TracePaths(named, os.path.join(tempfile.gettempdir(), f"tnt-timeline-{job}"), False)


def _without_links(path: str) -> str:
    """Return what a link leads to, also if that does not exist yet."""
    for _ in range(_MOST_LINKS):
        if not os.path.islink(path):
            return path
        # In a folder where others may write, too, their links could lead to any file of this user.
        owner = os.lstat(path).st_uid
        if owner not in (0, os.geteuid()):
            raise ValueError(
                f"the link '{path}' belongs to user {owner}, and links of other users are not"
                " followed."
            )
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise ValueError("it is a link that leads to itself.")


@contextlib.contextmanager
def _telling(path: str, what: str) -> Iterator[None]:
    """Turn an error of the system into one that names the file."""
    try:
        yield
    except OSError as error:
        raise CommError(f"the file '{path}' cannot be {what}: {error.strerror}.") from None


def require_place(paths: TracePaths, rank: int) -> None:
    """Raise a ValueError if what lies where a rank writes its part is none. Local."""
    path = paths.part_of(rank)
    if os.path.lexists(path) and not is_part(path):
        raise ValueError(
            f"the file '{path}', where this rank would write, is not part of a timeline: move it "
            "away."
        )


@contextlib.contextmanager
def _new_file(path: str) -> Iterator[BinaryIO]:
    """Give a file that is put in place as a whole or not at all, with the mode of the old one."""
    # The other name cannot be guessed and is never one that is there already, so that in a folder
    # where others may write, too, no link of theirs is followed.
    name = f"{path}.{secrets.token_hex(8)}.new"
    with _telling(path, "written"):
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_WRONLY, 0o666)
    try:
        with _telling(path, "written"), os.fdopen(descriptor, "wb") as file:
            if os.path.isfile(path) and not os.path.islink(path):
                os.fchmod(descriptor, stat.S_IMODE(os.lstat(path).st_mode) & 0o777)
            yield file
        with _telling(path, "written"):
            os.rename(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


def write_atomically(path: str, text: str) -> None:
    """Write a file as a whole or not at all; a CommError if it cannot be written. Local."""
    with _new_file(path) as file:
        file.write(text.encode())


def is_part(path: str) -> bool:
    """Return whether a file is a part, perhaps a damaged one, and not the user's own. Local."""
    # A link would be somebody else's: ranks put files in place of it.
    if not os.path.isfile(path) or os.path.islink(path):
        return False
    with open(path, "rb") as file:
        begin = file.read(max(len(HEAD), len(RECORDS_HEAD)))
    return begin.startswith((HEAD.encode(), RECORDS_HEAD))


def _read_part(path: str) -> tuple[str, str] | None:
    """Return the events and the info, as JSON, of a part; None if it is missing or damaged."""
    if not is_part(path):
        return None
    content = Path(path).read_bytes()
    if content.startswith(RECORDS_HEAD):  # of a rank without Python
        content = render_part(content, "complete").encode()
    events, separator, info = content.decode("utf-8", "replace").rpartition(INFO_HEAD)
    if not separator or not info.endswith(TAIL):
        return None
    return events.removeprefix(HEAD), info.removesuffix(TAIL)


def _part_of_rank(paths: TracePaths, rank: int, now_ns: int) -> tuple[str, str]:
    """Return the events and the info of a rank, whatever it has left."""

    def mark(why: str) -> str:
        return process_mark(rank, now_ns, f"no events of rank {rank}: {why}")

    part = _read_part(paths.part_of(rank))
    if part is None:
        names = process_names(rank, f"rank {rank}: no trace")
        lines = SEPARATOR.join([*names, mark("it wrote no file here")])
        return lines, f'{{"rank":{rank},"state":"missing"}}'
    events, info = part
    if json.loads(info)["state"] == "started":
        events += SEPARATOR + mark("it was ended from outside, or has not ended yet")
    return events, info


def _joined(paths: TracePaths, num_ranks: int, now_ns: int) -> Iterator[bytes]:
    """Yield the pieces of the whole trace."""
    infos = []
    for rank in range(num_ranks):
        events, info = _part_of_rank(paths, rank, now_ns)
        infos.append(info)
        yield f"{SEPARATOR if rank else HEAD}{events}".encode()
    yield f'{INFO_HEAD}{{"size":{num_ranks},"ranks":[{",".join(infos)}]}}{TAIL}'.encode()


@contextlib.contextmanager
def _lock(paths: TracePaths) -> Iterator[str]:
    """Let one process of the job join at a time; give the name of the lock."""
    name = f"{paths.parts}.ranks.lock"
    with _telling(name, "created"):
        descriptor = os.open(name, os.O_CREAT | os.O_NOFOLLOW | os.O_RDWR, 0o600)
    end = time.monotonic() + _LONGEST_WAIT_S
    try:
        with _telling(name, "locked"):
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.01)
        yield name
    finally:
        os.close(descriptor)


def merge_parts(paths: TracePaths, num_ranks: int, now_ns: int, *, has_ended: bool) -> None:
    """Join the parts of all ranks into the trace. Local: never waits for a rank.

    Ranks whose part is missing or empty are named in it, with a mark at `now_ns` (of rank 0's
    clock). A device or a pipe is written to once, when all ranks have ended. If the job
    `has_ended`, no rank will write its part any more, and the parts are removed.
    """
    # What was written into a pipe cannot be replaced by a more complete trace.
    if not paths.is_replaced and not has_ended:
        return
    with _lock(paths) as lock:
        parts = [paths.part_of(rank) for rank in range(num_ranks)]
        try:
            # They are gone if another rank, which thought itself the last one too, has joined them.
            if any(map(is_part, parts)):
                _write(paths, _joined(paths, num_ranks, now_ns))
        except CommError:
            # Nobody would look for them among temporary files.
            has_ended = not paths.is_replaced
            raise
        finally:
            if has_ended:
                for part in filter(is_part, parts):
                    os.unlink(part)
            # Not a file of the user that has this name.
            if (has_ended or not any(map(is_part, parts))) and os.lstat(lock).st_size == 0:
                os.unlink(lock)


def _write(paths: TracePaths, pieces: Iterator[bytes]) -> None:
    if paths.is_replaced:
        with _new_file(paths.path) as file:
            file.writelines(pieces)
        return
    with _telling(paths.path, "written"):
        descriptor = os.open(paths.path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            for piece in pieces:
                _write_in_time(descriptor, memoryview(piece))
        finally:
            os.close(descriptor)


def _write_in_time(descriptor: int, content: memoryview) -> None:
    """Write to a device or a pipe; an OSError if nobody reads it for some seconds."""
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    while content:
        try:
            content = content[os.write(descriptor, content) :]
        except BlockingIOError:
            if not ready.poll(_LONGEST_WAIT_S * 1000):
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None


def merge_left_parts(path: str) -> None:
    """Do `merge_parts` for the parts that a job has left, which is over. Local.

    Raises:
        ValueError: If there are none.
        CommError: If a file cannot be read or written.
    """
    paths = trace_paths(path, "")
    folder, begin = os.path.split(f"{paths.parts}.rank")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    for name in names:
        part = _read_part(os.path.join(folder, name)) if name.startswith(begin) else None
        if part is not None:
            size = json.loads(part[1])["size"]
            return merge_parts(paths, size, time.monotonic_ns(), has_ended=True)
    raise ValueError(
        f"There is no part '{paths.part_of(0)}', nor one of another rank: nothing to merge."
    )
