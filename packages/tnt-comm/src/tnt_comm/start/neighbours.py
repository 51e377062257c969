"""Tasks of SLURM on this node that are no more: nobody else tells those that wait for them."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

from tnt_comm.start.place import Place
from tnt_comm.start.rendezvous import Loss
from tnt_comm.start.slurm import daemon_above

_FIRST_LOOK_S = 4.0  # by then all tasks of a node have been started
_INTERVAL_S = 2.0
_PROC = Path("/proc")


class Neighbours:
    """The tasks of one step on this node, looked at from time to time."""

    def __init__(self, place: Place, environment: Mapping[str, str], proc: Path = _PROC) -> None:
        self._place, self._proc = place, proc
        names = ("SLURM_JOB_ID", "SLURM_STEP_ID")
        self._marks = {f"{name}={environment.get(name, '')}".encode() for name in names}
        self._next_look = time.monotonic() + _FIRST_LOOK_S
        self._missing: set[int] = set()

    def ended(self) -> Loss | None:
        """Return a task that has ended, once two looks agree. Local."""
        is_soon = time.monotonic() < self._next_look
        if is_soon or self._place.starter != "slurm" or self._place.local_size is None:
            return None
        self._next_look = time.monotonic() + _INTERVAL_S
        before, self._missing = self._missing, self._look()
        both = before & self._missing
        if not both or self._place.local_rank is None:
            return None
        rank = self._place.rank - self._place.local_rank + min(both)
        return Loss(
            rank,
            f"rank {rank} on {os.uname().nodename} has ended before its first call of Tarantella. "
            "See its output.",
        )

    def _look(self) -> set[int]:
        """Return the numbers on the node of tasks without a process."""
        # In a container that shows processes of this task alone, nothing can be said of others.
        if daemon_above(self._proc) is None or self._place.local_size is None:
            return set()
        alive: set[int] = set()
        for process in self._proc.glob("[0-9]*"):
            with contextlib.suppress(
                OSError, ValueError
            ):  # it has just ended, or is another user's
                variables = (process / "environ").read_bytes().split(b"\0")
                if self._marks.issubset(variables):
                    local = next(one for one in variables if one.startswith(b"SLURM_LOCALID="))
                    alive.add(int(local.partition(b"=")[2]))
        return set(range(self._place.local_size)) - alive
