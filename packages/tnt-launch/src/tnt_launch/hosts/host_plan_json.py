"""The plan of a host as values that JSON knows, for the way to its agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tnt_launch.planning.gpi2 import MachineFile
from tnt_launch.planning.plan import HostPlan, RankPlan
from tnt_launch.planning.variables import JOB_SECRET


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
