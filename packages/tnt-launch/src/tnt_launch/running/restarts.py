"""Run a job to its end: started again after a failure, or by the scheduler that has ended it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

from tnt_launch.errors import LaunchError
from tnt_launch.log import say, write_to_stderr
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.running.agent import Hosts
from tnt_launch.running.ending import RankEnd
from tnt_launch.running.execute import JobEnd, run_job
from tnt_launch.running.requeue import scheduler_to_ask
from tnt_launch.running.signals import AskedToEndError, raised_requests


class Start(NamedTuple):
    """A job that is about to be started."""

    plan: LaunchPlan
    hosts: Hosts | None = None  # this host alone without them
    leave: Callable[[int], None] = lambda exit_code: None  # called when it has ended


# Plans a job on the hosts that answer; a LaunchError says why it cannot be started.
Begin = Callable[[LaunchSpec], AbstractContextManager[Start]]


def run_to_the_end(spec: LaunchSpec, begin: Begin) -> int:
    """Run a job, report on stderr, and return the exit code for the shell. Main thread only."""
    scheduler = scheduler_to_ask(os.environ) if spec.requeue else None
    end = _run(spec, begin)
    if scheduler is not None and end.is_to_go_on:
        return scheduler.ask()
    return end.exit_code


def _run(spec: LaunchSpec, begin: Begin) -> JobEnd:
    """Run a job, again after each failure as far as the user allows."""
    before: JobEnd | None = None
    lane_threads: int | None = None
    for count in itertools.count():
        try:
            end, lane_threads = _run_once(spec.restarted(count, lane_threads), begin)
        except AskedToEndError as request:
            say(str(request))
            return JobEnd((), request.number)
        except LaunchError as error:
            if before is None:
                raise
            say(f"not started again: {error}")
            return before
        if end.cause is None or end.interrupted_by is not None or spec.max_restarts == 0:
            return end
        if before is not None and is_same_failure(before.cause, end.cause):
            say("not started again: the same failure at the same step as before the restart")
            return end
        if count == spec.max_restarts:
            say(f"not started again: this was restart {count}, the last (--max-restarts)")
            return end
        say(f"restart {count + 1} of {spec.max_restarts}: all ranks are started again")
        before = end
    raise AssertionError("the loop has an end")


def _run_once(spec: LaunchSpec, begin: Begin) -> tuple[JobEnd, int | None]:
    """Return the end of the job, and the threads of its lanes, which later ones are to keep."""
    with contextlib.ExitStack() as stack:
        with raised_requests():
            start = stack.enter_context(begin(spec))
        size = len(start.plan.ranks)
        if spec.min_ranks is not None and size < spec.min_ranks:
            raise LaunchError(f"there are {size} ranks, fewer than --min-ranks {spec.min_ranks}.")
        end = run_job(start.plan, start.hosts)
        write_to_stderr(end.report(start.plan).encode(errors="backslashreplace"))
        start.leave(end.exit_code)
    return end, start.plan.lane_threads


def is_same_failure(first: RankEnd | None, second: RankEnd | None) -> bool:
    """Return whether a failure is that of the run before: same error, place and step. Pure."""
    # Ends by a signal, and of hosts, come from outside and may be gone the next time.
    return first is not None and second is not None and _signature(first) == _signature(second)


def _signature(cause: RankEnd) -> object:
    if cause.exit_code < 0 or cause.why_lost or not cause.is_own_error:
        return object()  # equal to no other
    return cause.own_exit_code, cause.exception, cause.user_line("", ""), cause.position
