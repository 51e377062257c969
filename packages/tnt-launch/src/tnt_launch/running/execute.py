"""Run a plan: start the agents, wait, end the job together, report."""

from __future__ import annotations

import contextlib
import selectors
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tnt_launch.log import HANDLER, LOGGER, write_to_stderr
from tnt_launch.output.router import routed_output
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import Hosts, ThisHost, end_together
from tnt_launch.running.ending import LEFT, RankEnd, first_failure, shell_exit_code
from tnt_launch.running.job import Job
from tnt_launch.running.processes import limits_told
from tnt_launch.running.report import report_failure, report_leaving
from tnt_launch.running.signals import ASKING, SignalInbox


@dataclass(frozen=True)
class JobEnd:
    """How a job ended."""

    ends: tuple[RankEnd, ...]  # in the order of time
    interrupted_by: int | None  # the signal that asked the launcher to end the job

    @property
    def cause(self) -> RankEnd | None:
        """The end of the rank that failed first, `None` if none has failed."""
        return first_failure(self.ends)

    @property
    def exit_code(self) -> int:
        """0, that of the rank that failed first, `LEFT`, or 128 + N for signal N, as of a shell."""
        cause = self.cause
        if cause is not None:  # also if a signal came afterwards: the failure is what matters
            return shell_exit_code(cause.own_exit_code)
        if any(end.exit_code == LEFT for end in self.ends):
            return LEFT
        is_done = bool(self.ends) and all(end.exit_code == 0 for end in self.ends)
        if self.interrupted_by in ASKING and is_done:
            return 0  # all were done before their time was over
        return 0 if self.interrupted_by is None else 128 + self.interrupted_by

    @property
    def is_to_go_on(self) -> bool:
        """Whether a scheduler has asked for the end of the job before it was done."""
        if self.cause is not None or self.exit_code == 0:
            return False
        return self.exit_code == LEFT or self.interrupted_by in ASKING

    def with_errors(self, errors: Mapping[int, tuple[float, str]]) -> JobEnd:
        """Count ranks as ended by errors, each with its time and traceback, that are known of."""
        ends = [
            end
            if end.rank not in errors
            else replace(
                end,
                exit_code=max(end.exit_code, 1),
                time_s=errors[end.rank][0],
                was_ended=False,
                stderr=errors[end.rank][1],
            )
            for end in self.ends
        ]
        return JobEnd(tuple(sorted(ends, key=lambda end: end.time_s)), self.interrupted_by)

    def report(self, plan: LaunchPlan) -> str:
        """Tell what went wrong in the job of `plan`, nothing if all went well. Pure."""
        cause = self.cause
        if cause is not None:
            return report_failure(cause, self.ends, plan.hosts[0].working_directory, plan.script)
        if self.exit_code == 0:
            return ""
        if self.is_to_go_on:
            return report_leaving(self.ends, self.interrupted_by, plan.grace_s)
        if self.interrupted_by is not None:
            name = signal.Signals(self.interrupted_by).name
            return f"tarantella: {name} received, all {len(self.ends)} ranks have ended\n"
        return ""


def run_job(plan: LaunchPlan, hosts: Hosts | None = None) -> JobEnd:
    """Run a job and wait for its end. Call it in the main thread of a process with one thread."""
    LOGGER.info("%s, job %s", plan.summary(), plan.job_id)
    with contextlib.ExitStack() as stack:
        with limits_told():
            if hosts is None:
                hosts = ThisHost(stack.enter_context(selectors.PollSelector()))
            inbox = stack.enter_context(SignalInbox())
            output = stack.enter_context(routed_output(plan))
            job = Job(plan, output, hosts, inbox)
        HANDLER.write_line = job.write_message
        stack.callback(setattr, HANDLER, "write_line", write_to_stderr)
        agents = hosts.agents(plan, job, output.is_rank_0_direct)
        try:
            job.run(agents)
        finally:
            end_together(agents, hosts)
            job.drain()
    return JobEnd(tuple(job.ends), job.interrupted_by)
