"""`tarantella doctor`: reach hosts, look at each by a process on it, measure the network."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tnt_launch.doctor.facts import Fact, collect_facts
from tnt_launch.doctor.host_checks import HostChecks
from tnt_launch.doctor.network_checks import (
    check_equality,
    check_link,
    check_network_engine,
    check_reached,
    check_unmeasured,
    check_unreached,
)
from tnt_launch.doctor.report import Finding, Report, Screen
from tnt_launch.errors import LaunchError
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.hosts.launch import cluster_of, plan_on_hosts
from tnt_launch.planning.command_line import hosts_of, read_number_of_ranks, settings_of
from tnt_launch.planning.host_facts import HostFacts, choose_addresses, own_version
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.options import make_doctor_parser
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan, make_job_id
from tnt_launch.planning.scheduler_job import in_scheduler_job, read_file
from tnt_launch.planning.settings import Settings, read_settings, settings_and_log
from tnt_launch.planning.spec import LaunchSpec, working_folder
from tnt_launch.planning.variables import INTERFACE, TIMEOUT_S

HOST_S = 300.0  # time for all checks of a host, each of which has a deadline of its own
NETWORK_S = 180.0  # time for all measurements between hosts

_LINK_TIMEOUT_S = 30.0
_LEAST_RANKS = 2
_HOST = "tarantella.doctor.host"
_LINKS = "tarantella.doctor.links"
_NO_MODULE = "No module named"


def read_doctor_options(arguments: Sequence[str]) -> LaunchSpec:
    """Turn the arguments of `tarantella doctor` into a spec; reads the host file. Local."""
    options = make_doctor_parser().parse(arguments)
    hosts, ssh = hosts_of(options)
    spec = LaunchSpec(
        program=("-m", _HOST),
        interpreter=(sys.executable,),
        ranks_per_node=read_number_of_ranks(options.ranks_per_node),
        hosts=hosts,
        ssh=ssh,
        settings=settings_of(options),
    )
    return replace(in_scheduler_job(spec, os.environ, read_file), rendezvous=None)


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
    check_hosts(plan, None, [_checks_of(spec, settings)], report)


def _check_hosts(spec: LaunchSpec, settings: Settings, report: Report) -> None:
    reached = reach_hosts(spec, settings, report)
    if not reached.hosts:
        return
    # Connected anew, without those that did not answer.
    with cluster_of(reached, settings) as cluster:
        try:
            reports = cluster.connect()
        except LaunchError as error:
            section = report.begin("hosts once more")
            report.add(section, [check_unreached("HOST", str(error))])
            report.finish(section)
            return
        names = [host.name for host in reached.hosts]
        folders = [report.working_directory for report in reports]
        checks = [_checks_of(reached, settings) for _ in names]
        plan = plan_checks(reached, list(zip(names, folders, strict=True)))
        check_hosts(plan, cluster, checks, report)
        if len(names) > 1:
            check_network(reached, reports, cluster, checks, report)


def _checks_of(spec: LaunchSpec, settings: Settings) -> HostChecks:
    num_hosts = max(len(spec.hosts), 1)
    return HostChecks(spec.ranks_per_node, num_hosts, settings.get(INTERFACE) or "")


def reach_hosts(spec: LaunchSpec, settings: Settings, report: Report) -> LaunchSpec:
    """Reach all hosts, report on each in a section, and return the spec with those alone."""
    section = report.begin("hosts")
    report.progress(section, f"reaching {len(spec.hosts)} hosts")
    with cluster_of(spec, settings) as cluster:
        outcomes = cluster.try_to_connect()
        clocks = cluster.clock_differences()
    reached = {
        node: outcome for node, outcome in enumerate(outcomes) if isinstance(outcome, HostFacts)
    }
    addresses = _addresses(spec, reached)
    for node, (host, outcome) in enumerate(zip(spec.hosts, outcomes, strict=True)):
        if isinstance(outcome, HostFacts):
            own, address = outcome.addresses, addresses.get(node, "")
            way = os.path.basename(spec.ssh[0])
            found = check_reached(host.name, own_version(), clocks.get(node), own, address, way)
        else:
            found = check_unreached(host.name, outcome)
        report.add(section, [found])
    report.finish(section)
    return replace(spec, hosts=tuple(spec.hosts[node] for node in reached))


def _addresses(spec: LaunchSpec, reached: dict[int, HostFacts]) -> dict[int, str]:
    """Return the addresses that a job would use; none if a host has none, of which others tell."""
    if len(reached) < 2:
        return {}
    names = [spec.hosts[node].name for node in reached]
    try:
        chosen = choose_addresses(
            names,
            list(reached.values()),
            spec.settings.get(INTERFACE.name, ""),
        )
    except LaunchError:
        return {}
    return dict(zip(reached, chosen, strict=True))


def plan_checks(spec: LaunchSpec, folders: Sequence[tuple[str, str]]) -> LaunchPlan:
    """Plan a process on each host that looks at it, with the variables of the user's own jobs."""
    num_ranks = max(spec.ranks_per_node or _LEAST_RANKS, _LEAST_RANKS)
    argv = (*spec.interpreter, "-m", _HOST, str(num_ranks))
    job_id = make_job_id()
    hosts = [
        HostPlan(
            name, folder, (RankPlan(rank, name, argv, {"TNT_JOB_ID": job_id}),), node_rank=rank
        )
        for rank, (name, folder) in enumerate(folders)
    ]
    return LaunchPlan(job_id, tuple(hosts), 0, shows_all_output=False, script=_HOST)


def plan_links(spec: LaunchSpec, reports: Sequence[HostFacts], secret: str) -> LaunchPlan:
    """Plan a job of one rank on each host that measures the network between them."""
    job = replace(
        spec,
        program=("-m", _LINKS),
        hosts=tuple(HostSlots(host.name) for host in spec.hosts),
        ranks_per_node=1,
        allow_gpus=False,
        settings={**spec.settings, TIMEOUT_S.name: _LINK_TIMEOUT_S},
    )
    return plan_on_hosts(job, read_settings(job, os.environ), reports, secret)


def check_hosts(
    plan: LaunchPlan, hosts: Cluster | None, checks: Sequence[HostChecks], report: Report
) -> None:
    """Run a plan of `plan_checks` and report what is found, in a section for each host."""
    sections = [report.begin(f"host {host.host}") for host in plan.hosts]
    begin_s = time.monotonic()

    def take(rank: int, fact: Fact) -> None:
        report.add(sections[rank], checks[rank].take(fact))

    def end(rank: int, why: str) -> None:
        if why:
            report.add(sections[rank], failure_of_start(checks[rank], why))
        report.finish(sections[rank])

    def wait() -> None:
        for section, host in zip(sections, checks, strict=True):
            seconds = time.monotonic() - begin_s
            report.progress(section, f"{host.checking or 'starting'} ({seconds:.0f} s)")

    collect_facts(plan, hosts, take, end, wait, HOST_S)


def failure_of_start(check: HostChecks, why: str) -> Iterable[Finding]:
    """Say what follows if the process on a host has failed. Pure."""
    if _NO_MODULE in why and not check.checking:
        return [
            Finding(
                "problem",
                "packages",
                f"the package tarantella is not installed for this Python ({why})",
                "Install all packages of tarantella into this environment, as its README says.",
            )
        ]
    return check.fail(why)


def check_network(
    spec: LaunchSpec,
    reports: Sequence[HostFacts],
    hosts: Cluster,
    checks: Sequence[HostChecks],
    report: Report,
) -> None:
    """Report what several hosts have in common, and how fast they talk, in a section."""
    section = report.begin("between the hosts")
    names = [host.name for host in spec.hosts]
    installed = {
        name: check.known["packages"]["installed"]
        for name, check in zip(names, checks, strict=True)
        if "packages" in check.known
    }
    report.add(section, check_equality(installed))
    try:
        plan = plan_links(spec, reports, hosts.secret)
    except LaunchError as error:
        report.add(section, [check_unmeasured(str(error))])
    else:
        _measure(plan, hosts, names, section, report)
    report.finish(section)


def _measure(
    plan: LaunchPlan, hosts: Cluster, names: Sequence[str], section: int, report: Report
) -> None:
    links: list[Mapping[str, Any]] = []
    failures: list[str] = []
    checking = "start of the network"

    def take(rank: int, fact: Fact) -> None:
        nonlocal checking
        if fact.about == "begin":
            checking = fact.values["check"]
        elif fact.about == "link":
            links.append(fact.values)
        elif fact.about == "failure":
            failures.append(f"{names[rank]}: {fact.values['why']}")
        elif fact.about == "network_engine":
            report.add(section, [check_network_engine(fact.values)])

    def end(rank: int, why: str) -> None:
        if why:
            failures.append(f"{names[rank]}: {why}")

    def wait() -> None:
        report.progress(section, checking)

    collect_facts(plan, hosts, take, end, wait, NETWORK_S)
    fastest = max((link["bytes_per_s"] for link in links), default=0.0)
    report.add(section, [check_link(names, link, fastest) for link in links])
    # What is told first is nearest to the cause: others lose a rank because of it.
    report.add(section, [check_unmeasured(f"{why} ({checking})") for why in failures[:1]])
