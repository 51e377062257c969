"""Look at each host by a process on it, all at once."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from tnt_launch.doctor.facts import Fact
from tnt_launch.doctor.finding import Finding
from tnt_launch.doctor.judgement.host import HostJudge
from tnt_launch.doctor.plans import HOST_S
from tnt_launch.doctor.processes import Processes
from tnt_launch.doctor.report import Report
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.running.agent import Hosts

_NO_MODULE = "No module named"


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
