"""`tarantella doctor` as a whole, with its options."""

from __future__ import annotations

import os
import selectors
import sys
from collections.abc import Sequence

from tnt_launch.doctor.checks import check_hosts, check_network, plan_checks, reach_hosts
from tnt_launch.doctor.judgement.host import HostJudge
from tnt_launch.doctor.judgement.hosts import judge_unreached
from tnt_launch.doctor.report import Report, Screen
from tnt_launch.errors import LaunchError
from tnt_launch.hosts.ssh_cluster import SshCluster
from tnt_launch.planning.on_this_host import settings_and_log
from tnt_launch.planning.options import hosts_of, read_number_of_ranks
from tnt_launch.planning.parser import Parser, add_host_options, add_number_of_ranks
from tnt_launch.planning.paths import working_folder
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import INTERFACE
from tnt_launch.running.agent import ThisHost


def make_doctor_parser() -> Parser:
    """Build the parser of the options of `tarantella doctor`. Pure."""
    parser = Parser(
        prog="tarantella doctor",
        description="Check this host, or the hosts of a job and the network between them: a line "
        "for each check, and what to do about each problem. The exit code is 1 if there is one.",
        allow_abbrev=False,
    )
    add_number_of_ranks(
        parser, "ranks that a job is to have on each host; tests run with as many (default: 2)"
    )
    add_host_options(parser)
    return parser


def read_doctor_options(arguments: Sequence[str]) -> LaunchSpec:
    """Turn the arguments of `tarantella doctor` into a spec; reads the host file. Local."""
    options = make_doctor_parser().parse_args(list(arguments))
    hosts, ssh = hosts_of(options)
    return LaunchSpec(
        program=("-m", "tarantella.doctor.host"),
        interpreter=(sys.executable,),
        ranks_per_node=read_number_of_ranks(options.ranks_per_node),
        hosts=hosts,
        ssh=ssh,
        interface=options.interface,
    )


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
