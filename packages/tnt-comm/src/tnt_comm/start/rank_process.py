"""Which process is the rank that the variables `TNT_*` describe: all that it starts inherits them.

A program that a rank starts is no rank: the rank itself would meet the others in the same calls. If
that program is a job of its own, by a scheduler or an MPI, the variables mean nothing in it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping

from tnt_comm.start.place import find_place

_PROCESS, _SCHEDULER_JOB = "TNT_RANK_PROCESS", "TNT_SCHEDULER_JOB"
_OF_RANK = (
    *("TNT_RANK", "TNT_SIZE", "TNT_LOCAL_RANK", "TNT_LOCAL_SIZE", "TNT_NODE_RANK", "TNT_NUM_NODES"),
    *("TNT_JOB_ID", "TNT_RESTART_COUNT", "TNT_RENDEZVOUS", _PROCESS, _SCHEDULER_JOB),
)
_JOBS_OF_SCHEDULERS = ("SLURM_JOB_ID", "LSB_JOBID", "PBS_JOBID", "OAR_JOB_ID")
_JOB_OF_GRID_ENGINE, _MARK_OF_GRID_ENGINE = "JOB_ID", "SGE_TASK_ID"  # others have a JOB_ID, too


def scheduler_job(environment: Mapping[str, str]) -> str:
    """Return a scheduler's job around a process, `SLURM_JOB_ID=7`; empty without one. Pure."""
    names = [name for name in _JOBS_OF_SCHEDULERS if environment.get(name)]
    if _MARK_OF_GRID_ENGINE in environment and environment.get(_JOB_OF_GRID_ENGINE):
        names.append(_JOB_OF_GRID_ENGINE)
    return f"{names[0]}={environment[names[0]]}" if names else ""


def forget_rank_of_other_job(environment: MutableMapping[str, str]) -> None:
    """Remove the description of a rank from a process that a later job has started. Local."""
    if _is_of_other_job(environment):
        for name in _OF_RANK:
            environment.pop(name, None)


def claim_rank(environment: MutableMapping[str, str], process: int) -> None:
    """Note that a process is the rank that its environment describes, unless it is known. Local."""
    if "TNT_RANK" in environment and _claim(environment) is None:
        told = (str(process), _job(environment), _start_without_launcher(environment))
        environment[_PROCESS] = " ".join(told)
        environment.setdefault(_SCHEDULER_JOB, scheduler_job(environment))


def refuse_child_of_rank(environment: Mapping[str, str], process: int) -> None:
    """Raise a ValueError in a process that one of several ranks has started. Pure."""
    claim = _claim(environment)
    if claim is None or claim[0] == str(process) or environment.get("TNT_SIZE") == "1":
        return
    raise ValueError(
        f"This process was started by rank {environment.get('TNT_RANK')} (process {claim[0]}), so "
        "it is not a rank itself: that rank exchanges data with the others. Exchange data in the "
        "rank, and pass this process what it needs. To start a separate job, run `tarantella -n "
        f"N -- SCRIPT`. If this process must be the rank instead, start it without {_PROCESS} in "
        "its environment, and call no function of Tarantella in the process that starts it."
    )


def _is_of_other_job(environment: Mapping[str, str]) -> bool:
    now, before = scheduler_job(environment), environment.get(_SCHEDULER_JOB)
    if now and before is not None and now != before:
        return True
    claim, start = _claim(environment), _start_without_launcher(environment)
    return claim is not None and bool(start) and start != claim[1]


def _claim(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the process that is the rank of this environment's job, and how it was started."""
    process, _, rest = environment.get(_PROCESS, "").partition(" ")
    job, _, start = rest.partition(" ")
    return (process, start) if process and job == _job(environment) else None


def _job(environment: Mapping[str, str]) -> str:
    return environment.get("TNT_JOB_ID", "") or environment.get("TNT_RENDEZVOUS", "")


def _start_without_launcher(environment: Mapping[str, str]) -> str:
    """Return what tells a start of several processes by something else from others of its kind."""
    own = {name: text for name, text in environment.items() if name not in _OF_RANK}
    try:
        place = find_place(own)
    except ValueError:  # told where it matters
        return ""
    return "" if place is None or place.size == 1 else f"{place.starter} {place.job}"
