"""Reach hosts, look at each by a process on it, and measure the network between them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tnt_launch.doctor.facts import Fact, Finding
from tnt_launch.doctor.judgement.host import HostJudge
from tnt_launch.doctor.judgement.hosts import (
    judge_equality,
    judge_link,
    judge_network_engine,
    judge_reached,
    judge_unmeasured,
    judge_unreached,
)
from tnt_launch.doctor.processes import Processes
from tnt_launch.doctor.report import Report
from tnt_launch.errors import LaunchError
from tnt_launch.hosts.launch import plan_on_hosts
from tnt_launch.hosts.ssh_cluster import SshCluster
from tnt_launch.planning.addresses import choose_addresses
from tnt_launch.planning.host_facts import HostFacts, own_version
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan, make_job_id
from tnt_launch.planning.settings import Settings, read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.transports import make_job_secret
from tnt_launch.running.agent import Hosts

HOST_S = 300.0  # time for all checks of a host, each of which has a deadline of its own
NETWORK_S = 180.0  # time for all measurements between hosts

_LINK_TIMEOUT_S = 30.0
_LEAST_RANKS = 2
_HOST = "tarantella.doctor.host"
_LINKS = "tarantella.doctor.links"
_NO_MODULE = "No module named"


def reach_hosts(spec: LaunchSpec, settings: Settings, report: Report) -> LaunchSpec:
    """Reach all hosts, report on each in a section, and return the spec with those alone."""
    section = report.begin("hosts")
    report.progress(section, f"reaching {len(spec.hosts)} hosts")
    with SshCluster(spec, settings) as cluster:
        outcomes = cluster.try_to_connect()
        clocks = cluster.clock_differences()
    reached = {
        node: outcome for node, outcome in enumerate(outcomes) if isinstance(outcome, HostFacts)
    }
    addresses = _addresses(spec, reached)
    for node, (host, outcome) in enumerate(zip(spec.hosts, outcomes, strict=True)):
        if isinstance(outcome, HostFacts):
            own, address = outcome.addresses.own, addresses.get(node, "")
            found = judge_reached(host.name, own_version(), clocks.get(node), own, address)
        else:
            found = judge_unreached(host.name, outcome)
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
            names, [report.addresses for report in reached.values()], spec.interface or ""
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


def plan_links(spec: LaunchSpec, reports: Sequence[HostFacts]) -> LaunchPlan:
    """Plan a job of one rank on each host that measures the network between them."""
    job = replace(
        spec,
        program=("-m", _LINKS),
        hosts=tuple(HostSlots(host.name) for host in spec.hosts),
        ranks_per_node=1,
        allow_gpus=False,
        timeout_s=_LINK_TIMEOUT_S,
    )
    return plan_on_hosts(job, read_settings(job, os.environ), reports, make_job_secret())


def check_hosts(
    plan: LaunchPlan, hosts: Hosts, judges: Sequence[HostJudge], report: Report
) -> None:
    """Run a plan of `plan_checks` and report what is found, in a section for each host."""
    sections = [report.begin(f"host {host.host}") for host in plan.hosts]
    begin_s = time.monotonic()

    def take(rank: int, fact: Fact) -> None:
        report.add(sections[rank], judges[rank].take(fact))

    def end(rank: int, why: str) -> None:
        if why:
            report.add(sections[rank], failure_of_start(judges[rank], why))
        report.finish(sections[rank])

    def wait() -> None:
        for section, judge in zip(sections, judges, strict=True):
            seconds = time.monotonic() - begin_s
            report.progress(section, f"{judge.checking or 'starting'} ({seconds:.0f} s)")

    Processes(plan, hosts, take, end, wait).run(HOST_S)


def failure_of_start(judge: HostJudge, why: str) -> Iterable[Finding]:
    """Say what follows if the process on a host has failed. Pure."""
    if _NO_MODULE in why and not judge.checking:
        return [
            Finding(
                "problem",
                "packages",
                f"the package tarantella is not installed for this Python ({why})",
                "Install all packages of tarantella into this environment, as its README says.",
            )
        ]
    return judge.fail(why)


def check_network(
    spec: LaunchSpec,
    reports: Sequence[HostFacts],
    hosts: Hosts,
    judges: Sequence[HostJudge],
    report: Report,
) -> None:
    """Report what several hosts have in common, and how fast they talk, in a section."""
    section = report.begin("between the hosts")
    names = [host.name for host in spec.hosts]
    installed = {
        name: judge.known["packages"]["installed"]
        for name, judge in zip(names, judges, strict=True)
        if "packages" in judge.known
    }
    report.add(section, judge_equality(installed))
    try:
        plan = plan_links(spec, reports)
    except LaunchError as error:
        report.add(section, [judge_unmeasured(str(error))])
    else:
        _measure(plan, hosts, names, section, report)
    report.finish(section)


def _measure(
    plan: LaunchPlan, hosts: Hosts, names: Sequence[str], section: int, report: Report
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
            report.add(section, [judge_network_engine(fact.values)])

    def end(rank: int, why: str) -> None:
        if why:
            failures.append(f"{names[rank]}: {why}")

    def wait() -> None:
        report.progress(section, checking)

    Processes(plan, hosts, take, end, wait).run(NETWORK_S)
    fastest = max((link["bytes_per_s"] for link in links), default=0.0)
    report.add(section, [judge_link(names, link, fastest) for link in links])
    # What is told first is nearest to the cause: others lose a rank because of it.
    report.add(section, [judge_unmeasured(f"{why} ({checking})") for why in failures[:1]])
