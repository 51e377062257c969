"""Which rank is to blame, and how the end of a job is told."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

STDERR_LINES = 30

_TRACEBACK = "Traceback (most recent call last):"
_CHAIN = ("During handling of the above exception", "The above exception was the direct cause")
_LOST_PEER = re.compile(r"\bPeerLostError\b")


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended.

    Attributes:
        rank: The rank.
        host: Name of its host.
        pid: Its process id.
        exit_code: As in `subprocess`: negative for a signal.
        was_ended: Whether the launcher had sent it a signal before.
        was_stopped: Whether it was stopped (SIGSTOP) when the launcher ended it.
        stdout: Its last lines on stdout, as far as they were kept.
        stderr: Its last lines on stderr.
    """

    rank: int
    host: str
    pid: int
    exit_code: int
    was_ended: bool = False
    was_stopped: bool = False
    stdout: str = ""
    stderr: str = ""

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself and not well. Local."""
        return self.exit_code != 0 and not self.was_ended

    @property
    def only_lost_a_peer(self) -> bool:
        """Whether it failed because another rank was gone. Local."""
        return self.has_failed and _LOST_PEER.search(last_traceback(self.stderr)) is not None


def first_failure(ends: Sequence[RankEnd]) -> RankEnd | None:
    """Find the rank to blame. Pure.

    Args:
        ends: The ends of ranks in the order of time.

    Returns:
        The first rank that failed with an error of its own; if all failing ranks only report that
        they lost a peer, the first of them; `None` if no rank failed.
    """
    failed = [end for end in ends if end.has_failed]
    own = [end for end in failed if not end.only_lost_a_peer]
    return next(iter(own or failed), None)


def shell_exit_code(exit_code: int) -> int:
    """Turn an exit code of `subprocess` into that of a shell: 128 + N for signal N. Pure."""
    return exit_code if exit_code >= 0 else 128 - exit_code


def exit_text(exit_code: int) -> str:
    """Name an exit code in words, such as `"killed by SIGKILL"`. Pure."""
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"


def last_traceback(text: str) -> str:
    """Cut the last traceback out of `text`, with the exceptions that it was raised from. Pure.

    Returns:
        From the first line of the traceback to the end of `text`; empty if there is none.
    """
    lines = text.splitlines()
    starts = [index for index, line in enumerate(lines) if line == _TRACEBACK]
    if not starts:
        return ""
    begin = starts.pop()
    while starts and any(line.startswith(_CHAIN) for line in lines[starts[-1] : begin]):
        begin = starts.pop()
    return "\n".join(lines[begin:])


def report_failure(cause: RankEnd, ends: Sequence[RankEnd]) -> str:
    """Tell the end of a failed job: the rank to blame first, then a line for each other. Pure.

    Args:
        cause: From `first_failure`.
        ends: The ends of all ranks.
    """
    blamed = "failed first" if not cause.only_lost_a_peer else "was the first to report a lost peer"
    parts = [
        f"tarantella: rank {cause.rank} on {cause.host} (pid {cause.pid}) {blamed}: "
        f"{exit_text(cause.exit_code)}"
    ]
    if cause.stdout:
        parts.append(f"--- rank {cause.rank}, last lines of stdout:\n{cause.stdout.rstrip()}")
    errors = last_traceback(cause.stderr) or _last_lines(cause.stderr, STDERR_LINES)
    if errors:
        parts.append(f"--- rank {cause.rank}, end of stderr:\n{errors.rstrip()}")
    others = sorted((end for end in ends if end is not cause), key=lambda end: end.rank)
    if others:
        parts.append("--- other ranks:")
        parts += [_line(end) for end in others]
    return "\n".join(parts) + "\n"


def _line(end: RankEnd) -> str:
    start = f"rank {end.rank} on {end.host} (pid {end.pid}): "
    if end.was_ended:
        state = "was stopped (SIGSTOP)" if end.was_stopped else "was still running"
        return f"{start}{state}, ended by tarantella"
    if end.exit_code == 0:
        return f"{start}left with exit code 0"
    last = _last_lines(last_traceback(end.stderr) or end.stderr, 1)
    return f"{start}{exit_text(end.exit_code)}" + (f": {last}" if last else "")


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])
