"""Which rank failed first, and the report of a failed job."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass

from tnt_launch.numbers import format_ranges
from tnt_launch.output.failure import Failure
from tnt_launch.output.traceback_text import exception_line, last_traceback, relative, user_line

STDERR_LINES = 30

_LISTED_RANKS = 8

_FATAL = re.compile("^Fatal Python error: .*", re.MULTILINE)  # by Python's `faulthandler`


@dataclass(frozen=True)
class RankEnd:
    """How a rank ended."""

    rank: int
    host: str
    pid: int
    exit_code: int  # as in `subprocess`: negative for a signal
    time_s: float = 0.0  # when it ended, on the clock of `time.monotonic`
    failure: Failure | None = None  # what it has told, before it got a signal from the launcher
    was_ended: bool = False  # the launcher had sent it a signal before
    was_stopped: bool = False  # by SIGSTOP when the launcher ended it
    stdout: str = ""  # its last lines, as far as they were kept
    stderr: str = ""  # its last lines
    why_lost: str = ""  # why nothing can be known of it any more
    position: str = ""  # in its training, such as `in epoch 3, step 120`

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself, or was about to, with an exit code other than 0."""
        return self.exit_code != 0 and (not self.was_ended or self.failure is not None)

    @property
    def is_own_error(self) -> bool:
        """Whether it failed, and not as a consequence of another rank's end, error or call."""
        is_consequence = self.failure is not None and self.failure.cause_rank is not None
        return self.has_failed and not is_consequence

    @property
    def failed_s(self) -> float:
        """When it failed: a process that has loaded TensorFlow ends long after its error."""
        return self.time_s if self.failure is None else self.failure.time_s

    @property
    def own_exit_code(self) -> int:
        """Its exit code, or that of Python after an error if the launcher did not wait for it."""
        return 1 if self.was_ended and self.failure is not None else self.exit_code

    @property
    def exception(self) -> str:
        """Class and message of its error, as far as it has told or printed them."""
        if self.failure is not None and self.failure.exception:
            return self.failure.exception
        # A traceback before a signal is one that the program has printed, and gone on.
        return exception_line(last_traceback(self.stderr)) if self.exit_code >= 0 else ""

    def user_line(self, working_directory: str, script: str) -> str:
        """Find the line of the user's own code that failed, as `train.py:12`."""
        if self.failure is None or not self.failure.kind:
            return user_line(last_traceback(self.stderr), working_directory, script)
        if not self.failure.file:
            return script
        return f"{relative(self.failure.file, working_directory)}:{self.failure.line}"


def first_failure(ends: Sequence[RankEnd]) -> RankEnd | None:
    """Find the rank that caused the failure, by ends in the order of time. Pure."""
    # The rank whose own error came first; if the errors of all are consequences, the first of them.
    failed = sorted((end for end in ends if end.has_failed), key=lambda end: end.failed_s)
    own = [end for end in failed if end.is_own_error]
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
    parts = [f"tarantella: {_name(cause)} {blamed}: {': '.join(filter(None, what))}"]
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
    if end.exit_code == 0:
        return "left with exit code 0"
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
