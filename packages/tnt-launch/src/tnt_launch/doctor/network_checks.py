"""Compare the hosts of a job, and measure the network between them through the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tnt_launch.doctor.facts import Fact
from tnt_launch.doctor.judgement.host import HostJudge
from tnt_launch.doctor.judgement.hosts import (
    judge_equality,
    judge_link,
    judge_network_engine,
    judge_unmeasured,
)
from tnt_launch.doctor.plans import NETWORK_S, plan_links
from tnt_launch.doctor.processes import Processes
from tnt_launch.doctor.report import Report
from tnt_launch.errors import LaunchError
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.running.agent import Hosts


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
