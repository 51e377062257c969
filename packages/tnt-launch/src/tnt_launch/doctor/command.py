"""`tarantella doctor` as a whole."""

from __future__ import annotations

import os
import selectors
from collections.abc import Sequence

from tnt_launch.doctor.host_checks import check_hosts
from tnt_launch.doctor.judgement.host import HostJudge
from tnt_launch.doctor.judgement.hosts import judge_unreached
from tnt_launch.doctor.network_checks import check_network
from tnt_launch.doctor.options import read_doctor_options
from tnt_launch.doctor.plans import plan_checks
from tnt_launch.doctor.reach import reach_hosts
from tnt_launch.doctor.report import Report
from tnt_launch.doctor.screen import Screen
from tnt_launch.errors import LaunchError
from tnt_launch.hosts.ssh_cluster import SshCluster
from tnt_launch.planning.on_this_host import settings_and_log
from tnt_launch.planning.paths import working_folder
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import INTERFACE
from tnt_launch.running.agent import ThisHost


def run_doctor(arguments: Sequence[str]) -> int:
    """Check this host, or several; show the table on stdout; return 1 if there is a problem."""
    spec = read_doctor_options(arguments)
    settings = settings_and_log(spec)
    report = Report(Screen())
    try:
        if spec.hosts:
            _check_hosts(spec, settings, report)
        else:
            _check_this_host(spec, settings, report)
    finally:
        report.clear()
    report.end()
    return 1 if report.num_problems else 0


def _check_this_host(spec: LaunchSpec, settings: Settings, report: Report) -> None:
    plan = plan_checks(spec, [(os.uname().nodename, working_folder())])
    with selectors.PollSelector() as selector:
        check_hosts(plan, ThisHost(selector), [_judge(spec, settings)], report)


def _check_hosts(spec: LaunchSpec, settings: Settings, report: Report) -> None:
    reached = reach_hosts(spec, settings, report)
    if not reached.hosts:
        return
    # Connected anew, without those that did not answer.
    with SshCluster(reached, settings) as cluster:
        try:
            reports = cluster.connect()
        except LaunchError as error:
            section = report.begin("hosts once more")
            report.add(section, [judge_unreached("HOST", str(error))])
            report.finish(section)
            return
        names = [host.name for host in reached.hosts]
        folders = [report.working_directory for report in reports]
        judges = [_judge(reached, settings) for _ in names]
        plan = plan_checks(reached, list(zip(names, folders, strict=True)))
        check_hosts(plan, cluster, judges, report)
        if len(names) > 1:
            check_network(reached, reports, cluster, judges, report)


def _judge(spec: LaunchSpec, settings: Settings) -> HostJudge:
    num_hosts = max(len(spec.hosts), 1)
    return HostJudge(spec.ranks_per_node, num_hosts, settings.get(INTERFACE) or "")
