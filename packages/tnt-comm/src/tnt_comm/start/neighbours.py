"""Processes of a start on this host that are no more: nobody else tells those that wait for them.

Whatever has started them knows, but does not end the others when one ends with exit code 0.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from tnt_comm.errors import PeerLostError
from tnt_comm.start.place import Place
from tnt_comm.start.processes import PROC, parent_of, processes_above, variables_of

_FIRST_LOOK_S = 4.0  # by then all processes of a host have been started
_INTERVAL_S = 2.0
# Of each starter: variables that its processes have in common, then the number on the host. Without
# the first of them it is another one, which sets some of the others.
_VARIABLES = {
    "slurm": (("SLURM_JOB_ID", "SLURM_STEP_ID"), "SLURM_LOCALID"),
    "open mpi": (("PMIX_NAMESPACE",), "OMPI_COMM_WORLD_LOCAL_RANK"),
    "pmi": (("PMI_SIZE", "MPI_LOCALNRANKS"), "MPI_LOCALRANKID"),
    "torchrun": (
        ("TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"),
        "LOCAL_RANK",
    ),
}
# The numbers among all of those whose ranks on a host need not be consecutive, nor in order.
_RANKS = {"open mpi": "OMPI_COMM_WORLD_RANK", "pmi": "PMI_RANK"}
_OLD_JOB_OF_OPEN_MPI = "OMPI_MCA_ess_base_jobid"
# How programs that start processes of a host are called: mpirun, hydra_pmi_proxy, prted, ...
_STARTERS = ("slurmstepd", "hydra", "mpirun", "mpiexec", "orte", "prte", "torchrun")
_OF_HYDRA = "hydra_pmi_proxy"  # the parent of its processes on a host


class Neighbours:
    """The processes of one start on this host, looked at from time to time."""

    def __init__(self, place: Place, environment: Mapping[str, str], proc: Path = PROC) -> None:
        self._place, self._proc = place, proc
        common, self._number = _VARIABLES[place.starter]
        if place.is_on_one_host:
            self._number = _RANKS.get(place.starter, self._number)
        if place.starter == "open mpi" and common[0] not in environment:
            common = (_OLD_JOB_OF_OPEN_MPI,)
        self._is_known = common[0] in environment and place.local_rank is not None
        self._marks = {
            os.fsencode(f"{name}={environment[name]}") for name in common if name in environment
        }
        self._next_look = time.monotonic() + _FIRST_LOOK_S
        self._missing: set[int] = set()

    def ended(self) -> PeerLostError | None:
        """Return the error of a process that has ended, once two looks agree. Local."""
        if not self._is_known or time.monotonic() < self._next_look:
            return None
        self._next_look = time.monotonic() + _INTERVAL_S
        before, self._missing = self._missing, self._look()
        both = before & self._missing
        return self._error(min(both)) if both else None

    def _error(self, number: int) -> PeerLostError:
        rank = self._rank_of(number)
        name = f"the rank with {self._number}={number}" if rank is None else f"rank {rank}"
        error = PeerLostError(
            f"{name} on {os.uname().nodename} has ended before its first call of Tarantella. See "
            "its output."
        )
        error.cause_rank = rank
        return error

    def _rank_of(self, number: int) -> int | None:
        """Return the rank of a process of this host, None if nothing that lives tells it."""
        place = self._place
        if place.is_on_one_host:
            return number
        if place.starter in _RANKS or place.local_rank is None:
            return None
        return place.rank - place.local_rank + number

    def _look(self) -> set[int]:
        """Return the numbers of this host that have no process."""
        starter = self._starter()
        if starter is None or self._place.local_size is None:
            return set()
        alive: set[int] = set()
        for process in self._proc.glob("[0-9]*"):
            try:
                variables = variables_of(process)
            except PermissionError:
                if parent_of(process) == starter:  # a rank that hides its variables
                    return set()
            except OSError:  # it has just ended
                continue
            else:
                if self._marks.issubset(variables) and self._is_below(process, starter):
                    alive.update(self._numbers_in(variables))
        return set(range(self._place.local_size)) - alive

    def _is_below(self, process: Path, starter: int) -> bool:
        """Return whether a process is not below another starter: with Hydra nothing else tells."""
        if self._place.starter != "pmi":
            return True
        above = processes_above(parent_of(process) or 0, self._proc)
        return next((pid for pid, name in above if name == _OF_HYDRA), starter) == starter

    def _numbers_in(self, variables: list[bytes]) -> set[int]:
        """Return the number that variables tell, in a set."""
        prefix = f"{self._number}=".encode()
        found = (each.removeprefix(prefix) for each in variables if each.startswith(prefix))
        return {int(text) for text in found if text.isdigit()}

    def _starter(self) -> int | None:
        """Return the process that has started those of this host, if it can be seen.

        Otherwise a container may hide the others, too, and nothing can be said of them.
        """
        above = processes_above(os.getppid(), self._proc)
        return next((pid for pid, name in above if self._is_starter(pid, name)), None)

    def _is_starter(self, pid: int, name: str) -> bool:
        if name.startswith(_STARTERS):
            return True
        if pid == 1:  # may be a container's own, with other variables than what it starts
            return False
        with contextlib.suppress(OSError):
            return not self._marks.issubset(variables_of(self._proc / str(pid)))
        return False  # another user's, as `su` is between the starter and a rank
