"""A job on several hosts: reach them, plan it by what they are like, run it."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.allocated import AllocatedCluster
from tnt_launch.hosts.authentication import user_secret
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.hosts.join import join_job
from tnt_launch.hosts.rendezvous import RendezvousCluster
from tnt_launch.hosts.ssh import SshCluster, carried_environment
from tnt_launch.log import LOGGER, say
from tnt_launch.numbers import listed
from tnt_launch.planning.host_facts import HostFacts, choose_addresses, inspect_host
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.lanes import hosts_that_fit
from tnt_launch.planning.plan import (
    LaunchPlan,
    choose_job_ranks,
    make_job_id,
    make_plan,
    tell_remarks,
)
from tnt_launch.planning.rank_environment import make_job_secret
from tnt_launch.planning.settings import Settings, settings_and_log
from tnt_launch.planning.spec import LaunchSpec, Rendezvous
from tnt_launch.planning.variables import INTERFACE, LANES, NUM_THREADS
from tnt_launch.running.restarts import Start, run_to_the_end


def launch_on_hosts(spec: LaunchSpec) -> int:
    """Run a job on the hosts of `spec`, or this host's part of one that was started by hand."""
    if spec.rendezvous is not None:
        return _launch_by_hand(spec, spec.rendezvous)
    return run_to_the_end(spec, _begin_on_hosts)


@contextlib.contextmanager
def _begin_on_hosts(spec: LaunchSpec) -> Iterator[Start]:
    settings = settings_and_log(spec)
    if spec.restart_count:
        spec = _on_hosts_that_answer(spec, settings)
    with cluster_of(spec, settings) as cluster:
        reports = cluster.connect()
        yield Start(plan_on_hosts(spec, settings, reports, cluster.secret), cluster)


def cluster_of(spec: LaunchSpec, settings: Settings) -> Cluster:
    """Return the hosts of `spec`, which are reached by the user's command or by a scheduler's."""
    if spec.allocation is not None and spec.allocation.dials_in:
        return AllocatedCluster(spec, settings, spec.allocation)
    return SshCluster(spec, settings)


def _on_hosts_that_answer(spec: LaunchSpec, settings: Settings) -> LaunchSpec:
    """Leave out the hosts that are gone since the ranks were started before."""
    with cluster_of(spec, settings) as cluster:
        outcomes = dict(zip(spec.hosts, cluster.try_to_connect(), strict=True))
    lost = {host.name: why for host, why in outcomes.items() if isinstance(why, str)}
    if not lost:
        return spec
    texts = "; ".join(f"host {name}: {why}" for name, why in lost.items())
    if spec.min_ranks is None:
        raise LaunchError(f"{texts}. With --min-ranks M the job continues without them.")
    say(f"continuing without {texts}")
    left = {host: facts for host, facts in outcomes.items() if isinstance(facts, HostFacts)}
    return with_fewer_hosts(spec, settings, left)


def with_fewer_hosts(
    spec: LaunchSpec, settings: Settings, left: Mapping[HostSlots, HostFacts]
) -> LaunchSpec:
    """Return a job on the hosts that are left, with lanes on as many ranks as these can be on."""
    spec = replace(spec, hosts=tuple(left))
    lanes = settings.get(LANES)
    if lanes is None or not left:
        return spec
    ranks = choose_job_ranks(spec, list(left.values()))
    hosts = hosts_that_fit(spec.hosts, ranks.per_host, lanes, spec.min_ranks or 1)
    counts = listed([f"{host.name}:{host.slots}" for host in hosts])
    say(f"{lanes} lanes go on on {counts}")
    return replace(spec, hosts=hosts, ranks_per_node=None)


def _launch_by_hand(spec: LaunchSpec, rendezvous: Rendezvous) -> int:
    settings = settings_and_log(spec)
    secret = user_secret(settings)
    if rendezvous.node_rank > 0:
        return join_job(spec, settings, rendezvous, secret)

    @contextlib.contextmanager
    def begin(spec: LaunchSpec) -> Iterator[Start]:
        with RendezvousCluster(spec, settings, rendezvous, secret) as cluster:
            reports = cluster.connect()
            spec = replace(spec, hosts=tuple(cluster.hosts), ranks_per_node=None, rendezvous=None)
            plan = plan_on_hosts(spec, settings, reports, secret)
            yield Start(plan, cluster, functools.partial(_leave, cluster))

    return run_to_the_end(spec, begin)


def _leave(cluster: RendezvousCluster, exit_code: int) -> None:
    cluster.leave(exit_code, "the job has failed; see its output" if exit_code else "")


def plan_without_asking(spec: LaunchSpec) -> LaunchPlan:
    """Plan a job on the hosts of `spec` as if they were all like this one, whatever they are."""
    settings = settings_and_log(spec)
    if spec.rendezvous is not None:
        others = (HostSlots(f"node-{node}") for node in range(1, spec.rendezvous.num_nodes))
        spec = replace(spec, hosts=(HostSlots(spec.rendezvous.host), *others), rendezvous=None)
    here = inspect_host(settings, os.environ, spec.allow_gpus)
    if settings.get(LANES) is not None and settings.get(NUM_THREADS) is None:
        LOGGER.warning(
            "it is unknown how many cores the other hosts have: the plan gives lanes the threads "
            "that they get if all have %d, as this one. TNT_NUM_THREADS sets their number. "
            "[lanes-unknown-hosts]",
            here.num_cores,
        )
    addresses = [host.host for host in spec.hosts]
    return _plan(spec, settings, [here] * len(addresses), addresses, make_job_secret())


def plan_on_hosts(
    spec: LaunchSpec, settings: Settings, reports: Sequence[HostFacts], secret: str
) -> LaunchPlan:
    """Plan a job by what its hosts tell, and log what the plan remarks."""
    addresses = choose_addresses(
        [host.name for host in spec.hosts],
        reports,
        settings.get(INTERFACE) or "",
    )
    return _plan(spec, settings, reports, addresses, secret)


def _plan(
    spec: LaunchSpec,
    settings: Settings,
    reports: Sequence[HostFacts],
    addresses: Sequence[str],
    secret: str,
) -> LaunchPlan:
    facts = [
        replace(report, host=host.name, address=address)
        for host, report, address in zip(spec.hosts, reports, addresses, strict=True)
    ]
    plan = make_plan(spec, settings, facts, carried_environment(os.environ), make_job_id(), secret)
    tell_remarks(spec, plan)
    return plan
