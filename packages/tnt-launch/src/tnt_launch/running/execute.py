"""Run a plan: start the agents, wait, end the job together, report."""

from __future__ import annotations

import contextlib
import selectors
import signal

from tnt_launch.log import HANDLER, LOGGER, write_to_stderr
from tnt_launch.output.report import report_failure, shell_exit_code
from tnt_launch.output.router import OutputRouter
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import LocalAgent
from tnt_launch.running.guardian import Guardian
from tnt_launch.running.job import Job
from tnt_launch.running.machine_file import machine_file_written
from tnt_launch.running.shared_memory import remove_end_notes, remove_files_of_job
from tnt_launch.running.signals import SignalInbox


def execute(plan: LaunchPlan) -> int:
    """Run a job and wait for its end. Call it in the main thread of a process with one thread.

    Args:
        plan: The plan; every host must be this one.

    Returns:
        The exit code for the shell: 0, that of the rank that failed first, or 128 + N if the
        launcher got signal N.

    Raises:
        LaunchError: If the ranks cannot be started.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(machine_file_written(plan.machine_file))
        guardian = Guardian(plan.job_id)
        stack.callback(guardian.close)
        selector = stack.enter_context(selectors.PollSelector())
        inbox = stack.enter_context(SignalInbox())
        router = OutputRouter(plan.shows_all_output, plan.tensorflow_log_level)
        job = Job(plan, router, selector, inbox)
        agents = [
            LocalAgent(host, selector, job, guardian, router.is_rank_0_direct, plan.job_id)
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
    return _report(job, plan)


def _report(job: Job, plan: LaunchPlan) -> int:
    """Write the report, if there is something to report, and return the exit code."""
    cause = job.cause
    if cause is not None:  # also if a signal came afterwards: the failure is what matters
        report = report_failure(cause, job.ends, plan.hosts[0].working_directory, plan.script)
        write_to_stderr(report.encode(errors="backslashreplace"))
        return shell_exit_code(cause.exit_code)
    if job.interrupted_by is not None:
        name = signal.Signals(job.interrupted_by).name
        text = f"tarantella: {name} received, all {len(job.ends)} ranks have ended\n"
        write_to_stderr(text.encode())
        return 128 + job.interrupted_by
    return 0
