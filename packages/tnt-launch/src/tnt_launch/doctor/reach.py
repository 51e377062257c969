"""Reach the hosts of a job through ssh, those that can be reached."""

from __future__ import annotations

from dataclasses import replace

from tnt_launch.doctor.judgement.hosts import judge_reached, judge_unreached
from tnt_launch.doctor.report import Report
from tnt_launch.errors import LaunchError
from tnt_launch.hosts.ssh_cluster import SshCluster
from tnt_launch.planning.addresses import choose_addresses
from tnt_launch.planning.host_facts import HostFacts, own_version
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec


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
