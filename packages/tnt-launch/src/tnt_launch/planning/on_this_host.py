"""From a spec to the plan for the host on which this process runs."""

from __future__ import annotations

import os

from tnt_launch.errors import LaunchError
from tnt_launch.log import configure_logging, write_to_stderr
from tnt_launch.planning.hardware import inspect_host
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.plan import LaunchPlan, make_job_id, make_plan
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec, check_program
from tnt_launch.planning.temporary_folder import find_temporary_folder
from tnt_launch.planning.ucx import make_job_secret
from tnt_launch.planning.variables import LOG_LEVEL


def plan_on_this_host(spec: LaunchSpec) -> LaunchPlan:
    """Plan a job with this process's environment and folder, and log what the plan remarks.

    Args:
        spec: What the user asked for.

    Raises:
        LaunchError: If the job cannot be planned as asked for.
    """
    if spec.hosts:
        raise LaunchError(
            "jobs on several hosts are not possible in this version. Leave out --hostfile and -H."
        )
    check_program(spec)
    settings = read_settings(spec, os.environ)
    log = configure_logging(settings.get(LOG_LEVEL) or "WARNING")
    for remark in spec.remarks:
        log.debug(remark)
    hardware = inspect_host(settings, os.environ, spec.allow_gpus)
    host = HostFacts(hardware, os.getcwd(), find_temporary_folder())
    plan = make_plan(spec, settings, [host], os.environ, make_job_id(), make_job_secret())
    for warning in plan.warnings:
        log.warning(warning)
    for note in plan.notes:
        log.info(note)
    if spec.report_bindings:
        for rank in plan.ranks:
            write_to_stderr(f"tarantella: {rank.binding()}\n".encode(errors="backslashreplace"))
    return plan
