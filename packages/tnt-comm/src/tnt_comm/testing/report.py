"""The outcome of every rank of a run, and the error that shows the failed ones."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

Outcome = Literal["returned", "raised", "died", "timed_out", "ended"]
"""How a rank's part in a run ended.

`returned`: the function returned a value. `raised`: it raised an exception (or its result cannot
be pickled). `died`: the process ended without reporting, by a signal or an exit code of its own, or
failed while leaving after it had reported. `timed_out`: it was not done when the time was over.
`ended`: it was still running when the grace after another rank's failure was over.
"""

MAX_OUTPUT_LINES = 60


@dataclass(frozen=True)
class RankReport:
    """The outcome of one rank in one run.

    Attributes:
        rank: The rank, `0 <= rank < size`.
        outcome: One of the words of `Outcome`.
        value: What the function returned; `None` unless `outcome` is `"returned"`.
        traceback: Formatted traceback of the exception; empty unless the function raised.
        exit_code: As in `subprocess.Popen.returncode`, so `-9` means SIGKILL. `None` for a process
            that still lives, as those of a pool do between runs. Of a process that the parent had
            to end (`timed_out`, `ended`) it is the parent's SIGKILL.
        pid: Process id.
        output: What the process wrote to stdout and stderr, in the order in which it was written.
        stack_dump: Python stacks of all threads when the time was up.
        seconds: When the outcome was known, in seconds after the start of the run.
    """

    rank: int
    outcome: Outcome
    value: Any = None
    traceback: str = ""
    exit_code: int | None = None
    pid: int = 0
    output: str = ""
    stack_dump: str = ""
    seconds: float = 0.0

    @property
    def has_failed(self) -> bool:
        """Whether the rank did anything other than return a value."""
        return self.outcome != "returned"

    @property
    def error(self) -> str:
        """Last line of the traceback, with kind and text of the error; empty without one."""
        lines = self.traceback.strip().splitlines()
        return lines[-1] if lines else ""

    def headline(self) -> str:
        """Return the outcome in one line. Local."""
        what = {
            "returned": "returned",
            "raised": f"raised {self.error}",
            "died": f"died: {exit_text(self.exit_code)}",
            "timed_out": "had not finished when the time was up",
            "ended": "was still running when the grace period after another rank's failure ended",
        }[self.outcome]
        return f"rank {self.rank} (pid {self.pid}, after {self.seconds:.2f} s) {what}"

    def full_text(self) -> str:
        """Return headline, traceback, stacks and the end of the output. Local."""
        parts = [self.headline()]
        for title, text in (
            ("traceback", self.traceback),
            ("stacks", self.stack_dump),
            ("output", last_lines(self.output, MAX_OUTPUT_LINES)),
        ):
            if text.strip():
                parts.append(f"  {title}:\n" + indented(text.strip("\n")))
        return "\n".join(parts)


class RanksFailed(RuntimeError):
    """At least one rank did not return; the text shows every rank, first failure first.

    Attributes:
        reports: One `RankReport` for every rank, in rank order.
    """

    _symbol: ClassVar[str] = "ranks-failed"

    def __init__(self, reports: Sequence[RankReport], what: str) -> None:
        """Build the text from `reports` of the run of the function named `what`. Local."""
        self.reports = tuple(reports)
        failed = sorted((r for r in reports if r.has_failed), key=_causes_first)
        rest = [report for report in reports if not report.has_failed]
        title = f"{len(failed)} of {len(self.reports)} ranks failed in {what} [{self._symbol}]"
        texts = [report.full_text() for report in failed] + [report.headline() for report in rest]
        super().__init__("\n\n".join([title, *texts]))


def exit_text(exit_code: int | None) -> str:
    """Name an exit code of `subprocess` in words, such as `"killed by SIGKILL"`. Local."""
    if exit_code is None:
        return "still running"
    if exit_code >= 0:
        return f"exit code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"


def last_lines(text: str, count: int) -> str:
    """Keep the last `count` lines of `text` and say how many were left out. Local."""
    lines = text.splitlines()
    if len(lines) <= count:
        return text
    return "\n".join([f"... ({len(lines) - count} lines before)", *lines[-count:]])


def indented(text: str) -> str:
    """Put every line of `text` four columns to the right. Local."""
    return "\n".join("    " + line for line in text.splitlines())


def _causes_first(report: RankReport) -> tuple[bool, float]:
    return report.outcome in ("ended", "timed_out"), report.seconds
