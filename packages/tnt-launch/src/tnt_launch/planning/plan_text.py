"""A plan as text: commands that a shell can run, and JSON for the way to an agent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tnt_launch.numbers import format_ranges
from tnt_launch.planning.plan import HostPlan, LaunchPlan, RankPlan
from tnt_launch.planning.rank_environment import MachineFile
from tnt_launch.planning.variables import JOB_SECRET


def render_plan(plan: LaunchPlan) -> str:
    """Write a plan as shell commands, one per rank, each preceded by a comment line. Pure."""
    lines = [f"# tarantella plan: {plan.summary()}", f"# job {plan.job_id}"]
    if plan.output_dir:
        lines.append(f"# all output of each rank is also written to files in {plan.output_dir!r}")
    if any(JOB_SECRET.name in rank.environment for rank in plan.ranks):
        lines.append("# TNT_JOB_SECRET is not shown: 16 or more characters, the same for all ranks")
    for host in plan.hosts:
        if host.machine_file is not None:
            machines = " ".join(shlex.quote(name) for name in host.machine_file.hosts)
            lines.append("# machine file of GPI-2, removed when the job has ended")
            lines.append(f"printf '%s\\n' {machines} > {shlex.quote(host.machine_file.path)}")
        for rank in host.ranks:
            kept = f": {rank.place}, {rank.gpu}" if rank.gpu else ""
            lines.append(f"# rank {rank.rank} on {rank.host}{kept}")
            lines.append(render_rank(host, rank))
    return "\n".join(lines) + "\n"


def render_rank(host: HostPlan, rank: RankPlan) -> str:
    """Write one rank as a shell command: change the folder, set variables, run. Pure."""
    words = [f"{name}={_value(name, value)}" for name, value in rank.environment.items()]
    if rank.cpus:
        words += ["taskset", "-c", format_ranges(rank.cpus)]
    words += [_quoted(word) for word in rank.argv]
    return f"cd {shlex.quote(host.working_directory)} && " + " ".join(words)


def _value(name: str, value: str) -> str:
    # A plan may be shown to others.
    return '"$TNT_JOB_SECRET"' if name == JOB_SECRET.name else shlex.quote(value)


def _quoted(word: str) -> str:
    # `shlex.quote` leaves a=b alone, which as the first word of a command would be an assignment.
    return f"'{word}'" if "=" in word and shlex.quote(word) == word else shlex.quote(word)


def host_plan_to_json(plan: HostPlan, is_secret_known: bool = False) -> dict[str, Any]:
    """Return a plan as values that JSON knows, without a secret that the host has already. Pure."""
    values = asdict(plan)
    for rank in values["ranks"] if is_secret_known else ():
        rank["environment"].pop(JOB_SECRET.name, None)
    return values


def host_plan_from_json(values: Mapping[str, Any]) -> HostPlan:
    """Return what `host_plan_to_json` was called with. Pure."""
    file = values["machine_file"]
    return HostPlan(
        values["host"],
        values["working_directory"],
        tuple(
            RankPlan(**{name: _tupled(value) for name, value in rank.items()})
            for rank in values["ranks"]
        ),
        None if file is None else MachineFile(file["path"], tuple(file["hosts"])),
        values["node_rank"],
    )


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
