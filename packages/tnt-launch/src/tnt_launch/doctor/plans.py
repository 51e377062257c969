"""Which processes `tarantella doctor` starts on the hosts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from tnt_launch.hosts.launch import plan_on_hosts
from tnt_launch.planning.host_facts import HostFacts
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan, make_job_id
from tnt_launch.planning.settings import read_settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.transports import make_job_secret

HOST_S = 300.0
"""Time for all checks of a host, each of which has a deadline of its own."""

NETWORK_S = 180.0
"""Time for all measurements between hosts."""

_LINK_TIMEOUT_S = 30.0
_LEAST_RANKS = 2
_HOST = "tarantella.doctor.host"
_LINKS = "tarantella.doctor.links"


def plan_checks(spec: LaunchSpec, folders: Sequence[tuple[str, str]]) -> LaunchPlan:
    """Plan a process on each host that looks at it, with the variables of the user's own jobs."""
    num_ranks = max(spec.ranks_per_node or _LEAST_RANKS, _LEAST_RANKS)
    argv = (*spec.interpreter, "-m", _HOST, str(num_ranks))
    job_id = make_job_id()
    hosts = [
        HostPlan(
            name,
            folder,
            (RankPlan(rank, name, argv, {"TNT_JOB_ID": job_id}),),
            node_rank=rank,
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
