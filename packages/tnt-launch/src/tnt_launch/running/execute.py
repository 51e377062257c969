"""Run a plan: start the agents, wait, end the job together, report."""

from __future__ import annotations

import contextlib
import selectors
import signal
from dataclasses import dataclass

from tnt_launch.log import HANDLER, LOGGER, write_to_stderr
from tnt_launch.output.report import RankEnd, first_failure, report_failure, shell_exit_code
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import LocalAgent
from tnt_launch.running.guardian import Guardian
from tnt_launch.running.job import Job
from tnt_launch.running.limits import limits_told
from tnt_launch.running.machine_file import machine_file_written
from tnt_launch.running.records import make_record, recorded
from tnt_launch.running.routed_output import routed_output
from tnt_launch.running.shared_memory import remove_end_notes, remove_files_of_job
from tnt_launch.running.signals import SignalInbox


@dataclass(frozen=True)
class JobEnd:
    """How a job ended.

    Attributes:
        ends: The ends of all ranks, in the order of time.
        interrupted_by: The signal that asked the launcher to end the job, or `None`.
    """

    ends: tuple[RankEnd, ...]
    interrupted_by: int | None

    @property
    def cause(self) -> RankEnd | None:
        """The end of the rank that failed first, `None` if none has failed."""
        return first_failure(self.ends)

    @property
    def exit_code(self) -> int:
        """0, that of the rank that failed first, or 128 + N for signal N, as a shell tells it."""
        cause = self.cause
        if cause is not None:  # also if a signal came afterwards: the failure is what matters
            return shell_exit_code(cause.exit_code)
        return 0 if self.interrupted_by is None else 128 + self.interrupted_by

    def report(self, plan: LaunchPlan) -> str:
        """Tell what went wrong in the job of `plan`, nothing if all went well. Pure."""
        cause = self.cause
        if cause is not None:
            return report_failure(cause, self.ends, plan.hosts[0].working_directory, plan.script)
        if self.interrupted_by is not None:
            name = signal.Signals(self.interrupted_by).name
            return f"tarantella: {name} received, all {len(self.ends)} ranks have ended\n"
        return ""


def execute(plan: LaunchPlan) -> int:
    """Run a job, wait for its end, report on stderr; see `run_job`.

    Args:
        plan: The plan; every host must be this one.

    Returns:
        The exit code for the shell: 0, that of the rank that failed first, or 128 + N if the
        launcher got signal N.

    Raises:
        LaunchError: If the ranks cannot be started.
    """
    end = run_job(plan)
    write_to_stderr(end.report(plan).encode(errors="backslashreplace"))
    return end.exit_code


def run_job(plan: LaunchPlan) -> JobEnd:
    """Run a job and wait for its end. Call it in the main thread of a process with one thread.

    Args:
        plan: The plan; every host must be this one.

    Raises:
        LaunchError: If the ranks cannot be started.
    """
    LOGGER.info("%s, job %s", plan.summary(), plan.job_id)
    with contextlib.ExitStack() as stack:
        with limits_told():
            stack.enter_context(machine_file_written(plan.machine_file))
            files = [] if plan.machine_file is None else [plan.machine_file.path]
            record = make_record(
                plan.job_id, plan.script, plan.hosts[0].working_directory, tuple(files)
            )
            files += filter(None, [stack.enter_context(recorded(record))])
            guardian = Guardian(plan.job_id, files)
            stack.callback(guardian.close)
            selector = stack.enter_context(selectors.PollSelector())
            inbox = stack.enter_context(SignalInbox())
            output = stack.enter_context(routed_output(plan))
            job = Job(plan, output, selector, inbox)
            agents = [
                LocalAgent(
                    host, selector, job, guardian, output.router.is_rank_0_direct, plan.job_id
                )
                for host in plan.hosts
            ]
        HANDLER.write_line = job.write_message
        stack.callback(setattr, HANDLER, "write_line", write_to_stderr)
        try:
            job.run(agents)
        finally:
            for agent in agents:
                agent.close()
            remove_end_notes(plan.job_id)
            job.drain()
        left_behind = remove_files_of_job(plan.job_id)
    for path in left_behind:
        LOGGER.info("removed shared memory that was left behind: %s", path)
    return JobEnd(tuple(job.ends), job.interrupted_by)
