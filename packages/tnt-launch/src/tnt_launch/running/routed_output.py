"""The output of a job: where it goes, from the plan."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass

from tnt_launch.errors import LaunchError
from tnt_launch.output.files import OutputFiles
from tnt_launch.output.router import OutputRouter
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.terminal_copy import STDOUT, TerminalCopy


@dataclass(frozen=True)
class JobOutput:
    """What takes the output of a job."""

    router: OutputRouter
    # rank 0 writes to it through this, if that is kept in a file too
    terminal: TerminalCopy | None = None


@contextlib.contextmanager
def routed_output(plan: LaunchPlan) -> Iterator[JobOutput]:
    """Open what the output of the ranks goes to, for as long as the job runs."""
    hosts = {rank.rank: rank.host for rank in plan.ranks}

    def make(files: OutputFiles | None = None, terminal: TerminalCopy | None = None) -> JobOutput:
        fd = None if terminal is None else terminal.terminal
        level = plan.tensorflow_log_level
        router = OutputRouter(plan.shows_all_output, level, hosts, files, fd)
        return JobOutput(router, terminal)

    if not plan.output_dir:
        yield make()
        return
    with OutputFiles(plan.output_dir, list(hosts)) as files:
        if not os.isatty(STDOUT):
            yield make(files)
            return
        with _open_terminal() as terminal:
            output = make(files, terminal)
            terminal.take = lambda data: output.router.take(0, "stdout", data, time.monotonic())
            yield output


def _open_terminal() -> TerminalCopy:
    try:
        return TerminalCopy()
    except OSError as error:
        raise LaunchError(
            f"--output-dir needs a pseudo-terminal for rank 0, and there is none: {error}. "
            "Redirect stdout, or leave the option out."
        ) from error
