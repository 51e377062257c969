"""How ranks have ended, which of them failed first, and when it is time to end the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tnt_launch.running.board import Failure
from tnt_launch.running.traceback_text import exception_line, last_traceback, relative, user_line

# Exit code of a rank that has left since a scheduler has asked for it: run the job again. So does
# the launcher end then.
LEFT = os.EX_TEMPFAIL


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
    was_asked: bool = False  # to end by itself, by a signal of a scheduler
    was_stopped: bool = False  # by SIGSTOP when the launcher ended it
    stdout: str = ""  # its last lines, as far as they were kept
    stderr: str = ""  # its last lines
    why_lost: str = ""  # why nothing can be known of it any more
    position: str = ""  # in its training, such as `in epoch 3, step 120`

    @property
    def has_failed(self) -> bool:
        """Whether it ended by itself, or was about to, and not in good order."""
        was_told = self.was_ended or self.was_asked
        return self.exit_code not in (0, LEFT) and (not was_told or self.failure is not None)

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


# Time that the others have to tell errors of their own after the end of the rank to blame. That
# rank is lost whatever they do; all that a longer wait could show are consequences.
GRACE_S = 0.2

# Time that a rank has to end by itself if it is to blame, by its own error or by what others tell
# of it: Python with TensorFlow takes seconds on a busy host. The job has the exit code of this
# rank.
LEAVING_S = 10.0


def time_of_end(ends: Sequence[RankEnd], survivors: Mapping[int, Failure | None]) -> float:
    """Return when to end the ranks that run, by what they have told so far. Pure."""
    cause = first_failure(ends)
    assert cause is not None
    own = [one.time_s for one in survivors.values() if one is not None and one.cause_rank is None]
    if cause.is_own_error:
        # One whose error came before is the cause, but takes longer to end.
        earlier = [time_s + LEAVING_S for time_s in own if time_s < cause.failed_s]
        return max([cause.time_s + GRACE_S, *earlier])
    began = min(end.time_s for end in ends if end.has_failed)
    told = [end.failure for end in ends] + list(survivors.values())
    blamed = {one.cause_rank for one in told if one is not None}
    # The rank to blame still runs: one with an error of its own, or one that others name.
    is_awaited = own or any(rank in blamed for rank, one in survivors.items() if one is None)
    return began + (LEAVING_S if is_awaited else GRACE_S)
