"""From a spec to the plan for the host on which this process runs."""

from __future__ import annotations

import os

from tnt_launch.log import LOGGER, configure_logging, write_to_stderr
from tnt_launch.planning.host_facts import inspect_host
from tnt_launch.planning.plan import LaunchPlan, make_job_id, make_plan
from tnt_launch.planning.rank_environment import make_job_secret
from tnt_launch.planning.settings import Settings, read_settings
from tnt_launch.planning.spec import (
    LaunchSpec,
    check_program,
)
from tnt_launch.planning.variables import LOG_LEVEL


def settings_and_log(spec: LaunchSpec) -> Settings:
    """Read the settings with this process's environment, and set the log up by them."""
    settings = read_settings(spec, os.environ)
    log = configure_logging(settings.get(LOG_LEVEL) or "WARNING")
    for remark in spec.remarks:
        log.debug(remark)
    return settings


def tell_remarks(spec: LaunchSpec, plan: LaunchPlan) -> None:
    """Log what a plan has to tell the user, and where ranks are kept if the user wants that."""
    for warning in plan.warnings:
        LOGGER.warning(warning)
    for note in plan.notes:
        LOGGER.info(note)
    if spec.report_bindings:
        for rank in plan.ranks:
            write_to_stderr(f"tarantella: {rank.binding()}\n".encode(errors="backslashreplace"))


def plan_on_this_host(spec: LaunchSpec) -> LaunchPlan:
    """Plan a job with this process's environment and folder, and log what the plan remarks."""
    check_program(spec)
    settings = settings_and_log(spec)
    host = inspect_host(settings, os.environ, spec.allow_gpus)
    plan = make_plan(spec, settings, [host], os.environ, make_job_id(), make_job_secret())
    tell_remarks(spec, plan)
    return plan
