"""A job on several hosts: reach them, plan it by what they are like, run it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from tnt_launch.hosts.carried_environment import carried_environment
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.hosts.host_report import HostReport, inspect
from tnt_launch.planning.addresses import choose_addresses
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.on_this_host import settings_and_log, tell_remarks
from tnt_launch.planning.plan import LaunchPlan, make_job_id, make_plan
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.ucx import make_job_secret
from tnt_launch.planning.variables import INTERFACE
from tnt_launch.running.execute import execute


def launch_on_hosts(spec: LaunchSpec) -> int:
    """Run a job on the hosts of `spec`, and return the exit code for the shell.

    Raises:
        LaunchError: If a host cannot be reached, or the job cannot be planned or started.
    """
    settings = settings_and_log(spec)
    with Cluster(spec, settings) as cluster:
        plan = plan_on_hosts(spec, settings, cluster.connect())
        tell_remarks(spec, plan)
        return execute(plan, cluster)


def plan_without_asking(spec: LaunchSpec) -> LaunchPlan:
    """Plan a job on the hosts of `spec` as if they were all like this one, whatever they are.

    Raises:
        LaunchError: If the job cannot be planned as asked for.
    """
    settings = settings_and_log(spec)
    here = inspect(settings, os.environ, spec.allow_gpus)
    facts = [
        HostFacts(
            replace(here.hardware, host=host.name),
            here.working_directory,
            here.temporary_directory,
            host.host,
        )
        for host in spec.hosts
    ]
    plan = make_plan(
        spec, settings, facts, carried_environment(os.environ), make_job_id(), make_job_secret()
    )
    tell_remarks(spec, plan)
    return plan


def plan_on_hosts(
    spec: LaunchSpec, settings: Settings, reports: Sequence[HostReport]
) -> LaunchPlan:
    """Plan a job by what its hosts tell.

    Args:
        spec: What the user asked for.
        settings: From `settings_and_log`.
        reports: From the hosts of `spec`, in their order.

    Raises:
        LaunchError: If the job cannot be planned as asked for.
    """
    names = [host.name for host in spec.hosts]
    addresses = choose_addresses(
        names, [report.addresses for report in reports], settings.get(INTERFACE) or ""
    )
    facts = [
        HostFacts(
            replace(report.hardware, host=name),
            report.working_directory,
            report.temporary_directory,
            address,
        )
        for name, report, address in zip(names, reports, addresses, strict=True)
    ]
    return make_plan(
        spec, settings, facts, carried_environment(os.environ), make_job_id(), make_job_secret()
    )
