"""The report of a failed job."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence

from tnt_launch.numbers import format_ranges
from tnt_launch.running.ending import LEFT, RankEnd, exit_text
from tnt_launch.running.traceback_text import last_traceback

STDERR_LINES = 30

_LISTED_RANKS = 8

_FATAL = re.compile("^Fatal Python error: .*", re.MULTILINE)  # by Python's `faulthandler`


def report_failure(
    cause: RankEnd, ends: Sequence[RankEnd], working_directory: str = "", script: str = ""
) -> str:
    """Return the report of a failed job. Pure."""
    # The first line names the rank that failed first, what happened and the user's own line. Its
    # output and traceback follow, then a line for each other rank. The last line is the cause
    # again, since a terminal shows the end of the text.
    named = None if cause.failure is None else cause.failure.cause_rank
    have_all_failed = named is None or any(end.rank == named and end.has_failed for end in ends)
    blamed = (
        "failed first" if have_all_failed else f"was the first to fail, because of rank {named}"
    )
    exception = cause.exception
    what = [cause.why_lost or exit_text(cause.own_exit_code)]
    if exception:
        what += [cause.user_line(working_directory, script), exception]
    if cause.position:
        blamed += f", {cause.position}"
    told = ": ".join(filter(None, what))
    parts = [f"tarantella: {_name(cause)} {blamed}: {told} [rank-failed]"]
    if cause.stdout:
        parts.append(f"--- rank {cause.rank}, last lines of stdout:\n{cause.stdout.rstrip()}")
    errors = (last_traceback(cause.stderr) or _last_lines(cause.stderr, STDERR_LINES)).rstrip()
    if errors:
        parts.append(f"--- rank {cause.rank}, end of stderr:\n{errors}")
    others = sorted((end for end in ends if end is not cause), key=lambda end: end.rank)
    if others:
        parts.append("--- other ranks:")
        parts += _lines(others)
    if others or (exception and _last_lines(errors, 1) != exception):
        parts.append(f"--- the cause:\n{exception or _line(cause)}")
    return "\n".join(parts) + "\n"


def report_leaving(ends: Sequence[RankEnd], number: int | None, grace_s: float) -> str:
    """Return what is said of a job that a scheduler has asked to end. Pure."""
    by = "a signal to its ranks" if number is None else signal.Signals(number).name
    killed = sum(end.was_ended for end in ends)
    if killed:
        how = f"{killed} of {len(ends)} ranks were killed after {grace_s:g} s (--grace)"
    elif all(end.exit_code in (0, LEFT) for end in ends):
        how = f"all {len(ends)} ranks have left in order"
    else:
        how = f"all {len(ends)} ranks have ended"
    is_left = any(end.exit_code == LEFT for end in ends)
    again = f" (exit code {LEFT}): run the job again to continue" if is_left else ""
    return f"tarantella: asked to end by {by}, {how}{again}\n"


def _name(end: RankEnd) -> str:
    pid = f" (pid {end.pid})" if end.pid else ""
    return f"rank {end.rank} on {end.host}{pid}"


def _lines(ends: Sequence[RankEnd]) -> list[str]:
    """Return a line for each rank; of many, one for all that have ended alike."""
    if len(ends) <= _LISTED_RANKS:
        return [_line(end) for end in ends]
    groups: dict[str, list[RankEnd]] = {}
    for end in ends:
        alike = re.sub(rf"\brank {end.rank}\b", "rank", _state(end))
        groups.setdefault(alike, []).append(end)
    return [
        _line(group[0]) if len(group) == 1 else _shared_line(group) for group in groups.values()
    ]


def _shared_line(ends: Sequence[RankEnd]) -> str:
    numbers = format_ranges([end.rank for end in ends])
    return f"ranks {numbers} ({len(ends)} ranks), the first of them: {_state(ends[0])}"


def _line(end: RankEnd) -> str:
    return f"{_name(end)}: {_state(end)}"


def _state(end: RankEnd) -> str:
    """Say how a rank ended that is not the cause."""
    error = end.exception
    if end.was_ended:
        if error and end.failure is not None:
            return f"ended by tarantella after {error}"
        state = "was stopped (SIGSTOP)" if end.was_stopped else "was still running"
        return f"{state}, ended by tarantella"
    if end.exit_code in (0, LEFT):
        return f"left with exit code {end.exit_code}"
    if end.why_lost:
        return end.why_lost
    last = error or _last_words(end)
    return exit_text(end.exit_code) + (f": {last}" if last else "")


def _last_words(end: RankEnd) -> str:
    """Return the line of its stderr that tells of its end; empty if none does so."""
    fatal = _FATAL.search(end.stderr)
    if fatal is not None and end.exit_code < 0:
        return fatal[0]
    # A signal comes at any time, after any line; but whoever aborts says why.
    tells = end.exit_code >= 0 or end.exit_code == -signal.SIGABRT
    return _last_lines(end.stderr, 1) if tells else ""


def _last_lines(text: str, count: int) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])
