"""The first call that needs rank or size: a process that others were started with finds them."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import multiprocessing
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from tnt_comm import _core
from tnt_comm.errors import CommError
from tnt_comm.start.channels import (
    ProcessManager,
    manager_of,
    needs_manager,
    quick_endpoint,
    rendezvous_plan_of,
    trust_of,
)
from tnt_comm.start.endpoints import reserve_port
from tnt_comm.start.join_watch import JoinWatch
from tnt_comm.start.neighbours import Neighbours
from tnt_comm.start.place import Place, advice, find_place
from tnt_comm.start.rank_process import claim_rank, forget_rank_of_other_job, refuse_child_of_rank
from tnt_comm.start.rendezvous import Assignment, Rendezvous, RendezvousPlan, Wait
from tnt_comm.start.rendezvous_client import RendezvousClient
from tnt_comm.start.rendezvous_server import RendezvousServer
from tnt_comm.start.settings import Settings, read_settings
from tnt_comm.start.slurm import without_step_of_other_job

_BEFORE_FIRST_CALL = "before its first call of Tarantella. See its output."
_LOOPBACK = "127.0.0.1"
# The script, whose folder may be another one on another host, and its arguments.
_PROGRAM = hashlib.sha256(
    "\0".join([os.path.basename(sys.argv[0]), *sys.argv[1:]] if sys.argv else []).encode(
        errors="surrogateescape"
    )
).hexdigest()[:16]


class _Start:
    """How far this process has come; one object."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.has_met = False
        self.when_met: list[Callable[[], None]] = []
        self._has_joined = False
        self._manager: ProcessManager | None = None
        self._reserved: socket.socket | None = None  # until C++ listens there
        self._watch: JoinWatch | None = None
        self._has_tried = False
        self._has_failed = False
        self._process = os.getpid()

    def meet(self) -> None:
        """See `meet`."""
        if self.has_met:
            return
        with self._lock:
            if self.has_met:
                return
            place = current_place()
            if place is not None and place.size > 1:
                self._meet_others(place)
                atexit.register(self._end)
            elif place is None:
                _advise()
            claim_rank(os.environ, os.getpid())
            self.has_met = True

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """See `joining`."""
        self.meet()
        if not self._has_joined:  # forks of a process that has are refused in C++
            refuse_child_of_rank(os.environ, os.getpid())
        with contextlib.nullcontext() if self._watch is None else self._watch.joining():
            yield
        self._has_joined = True
        if self._reserved is not None:
            self._reserved.close()
            self._reserved = None

    def note_place(self, place: str) -> None:
        """See `note_place`."""
        if self._watch is not None:
            self._watch.note_place(place)

    def fail(self, text: str) -> None:
        """See `tell_failure`."""
        self._has_failed = True
        with self._lock:
            if self._watch is not None:
                self._watch.end(text)
            elif not self.has_met:
                with contextlib.suppress(CommError, ValueError):
                    self._fail_before_rendezvous(text)

    def _fail_before_rendezvous(self, text: str) -> None:
        place, settings = self.place_before_call(), read_settings(os.environ)
        if place is None:
            return
        # Open MPI ends all with a process that fails, torchrun those of its host. A manager with
        # PMI ends all if it knows the process. SLURM does not, unless the user says so.
        if place.starter == "pmi":
            manager_of(place, _wait_of(place, settings), os.environ)
        is_wide = place.starter == "torchrun" and not place.is_on_one_host
        if place.starter == "slurm" or is_wide:
            _open_rendezvous(rendezvous_plan_of(place, None, settings, os.environ)).fail(text)

    def end_without_call(self) -> None:
        """See `tell_end`."""
        place = None if self._has_failed else self.place_before_call()
        if place is None or place.rank == 0 or needs_manager(place):
            return
        endpoint = quick_endpoint(place, os.environ)
        found = endpoint.connections()
        if found:  # before anything that takes longer
            trust = trust_of(place, read_settings(os.environ))
            client = RendezvousClient(RendezvousPlan(place.rank, place.size, endpoint, trust))
            client.end(found, f"{_named(place.rank)} has ended {_BEFORE_FIRST_CALL}")

    def place_before_call(self) -> Place | None:
        """Return the place of one of several processes until its first call."""
        is_other = multiprocessing.parent_process() is not None
        place = None if self.has_met or self._has_tried or is_other else current_place()
        return None if place is None or place.size == 1 else place

    def _meet_others(self, place: Place) -> None:
        settings = read_settings(os.environ)
        _require_rank(settings)
        self._has_tried = True
        wait = _wait_of(place, settings)
        self._manager = manager_of(place, wait, os.environ)
        plan = rendezvous_plan_of(place, self._manager, settings, os.environ)
        rendezvous = _open_rendezvous(
            replace(plan, rendezvous=lambda address: self._reserve(address, settings))
        )
        os.register_at_fork(after_in_child=rendezvous.close)
        assignment = rendezvous.meet(wait)
        os.environ.update(_variables(assignment, settings))
        self._watch = JoinWatch(rendezvous, assignment.place.rank)
        _core.set_watched(self._watch.place_of)
        for function in self.when_met:
            function()

    def _reserve(self, address: str, settings: Settings) -> str:
        """Return where rank 0 is to listen over the network: a port that nobody else gets."""
        if not address and settings.transport != "ucx":
            return ""
        host = address or _LOOPBACK
        self._reserved, port = reserve_port(host)
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def _end(self) -> None:
        """Say goodbye to others, unless this process has failed: then they are to end with it."""
        if self._has_failed or os.getpid() != self._process:
            return
        with contextlib.suppress(CommError):
            if self._watch is not None:
                self._watch.end()
            if self._manager is not None:
                self._manager.close()


_start = _Start()


def forget_other_job() -> None:
    """Remove the description of a rank that has submitted the job of this process. Local."""
    forget_rank_of_other_job(os.environ)


def meet() -> None:
    """Make sure that the variables `TNT_*` say who this process is. The first time collective."""
    _start.meet()


def has_met() -> bool:
    """Return whether the variables `TNT_*` hold by now. Local."""
    return _start.has_met


def joining() -> contextlib.AbstractContextManager[None]:
    """Return a context in which the job is joined. It meets the others first."""
    return _start.joining()


def call_when_met(function: Callable[[], None]) -> None:
    """Have a function called once the others have been met that were started with this process."""
    _start.when_met.append(function)


def note_place(place: str) -> None:
    """Tell the others where this process is, until they have all joined. Local."""
    _start.note_place(place)


def tell_failure(text: str) -> None:
    """Tell the others that this process ends by a failure, as long as they have not all joined."""
    _start.fail(text)


def tell_exit(code: int) -> None:
    """Tell the others that this process ends with an exit code of failure before its first call."""
    with contextlib.suppress(ValueError):
        place = _start.place_before_call()
        if place is not None:
            _start.fail(
                f"{_named(place.rank)} has ended with exit code {code} {_BEFORE_FIRST_CALL}"
            )


def tell_end() -> None:
    """Tell rank 0, if that waits by now, that this process ends before its first call. Quick."""
    with contextlib.suppress(CommError, ValueError, OSError):
        _start.end_without_call()


def current_place() -> Place | None:
    """Return the place that this process has among those that were started with it. Local."""
    # A shell of `srun --pty` has the variables of a task; what is typed into it has a process group
    # of its own.
    is_typed = sys.stdin is not None and sys.stdin.isatty() and os.getpgrp() != os.getsid(0)
    place = find_place(without_step_of_other_job(os.environ), is_typed)
    if place is None or not place.job or place.has_several_programs:
        return place
    # Two programs of one step, at once or one after the other, are two jobs.
    return replace(place, job=f"{place.job} {_PROGRAM}")


def is_rank() -> bool:
    """Return whether this process is one of several ranks. Local."""
    if "TNT_RANK" in os.environ:
        return True
    with contextlib.suppress(ValueError):  # told by the first call that needs the place
        place = current_place()
        return place is not None and place.size > 1
    return False


def rank_and_size() -> tuple[int, int]:
    """Return both as far as they are known without asking others. Local."""
    if has_met() or "TNT_RANK" in os.environ:
        return _core.get_rank(), _core.get_size()
    place = current_place()
    return (0, 1) if place is None else (place.rank, place.size)


def _named(rank: int) -> str:
    return f"rank {rank} on {os.uname().nodename}"


def _wait_of(place: Place, settings: Settings) -> Wait:
    return Wait(
        settings.timeout_s,
        settings.report_s,
        _warner(place.rank, settings),
        Neighbours(place, os.environ).ended,
    )


def _open_rendezvous(plan: RendezvousPlan) -> Rendezvous:
    """Listen, as rank 0; others connect when they meet."""
    return RendezvousServer(plan) if plan.rank == 0 else RendezvousClient(plan)


def _advise() -> None:
    said = advice(os.environ)
    if said is not None:
        _warner(0, read_settings(os.environ))(said)


def _require_rank(settings: Settings) -> None:
    """Refuse what can be no rank, or has no way to others."""
    if multiprocessing.parent_process() is not None:
        raise ValueError(
            "A rank started this process with multiprocessing, so it is not a rank itself. Call "
            "`get_rank` in the rank before it starts processes, and pass the number to them."
        )
    if settings.transport == "gpi2":
        raise ValueError(
            "TNT_TRANSPORT=gpi2 needs facts about the hosts that only the launcher knows. Start "
            "the script with `tarantella`, or unset the variable: ranks then use UCX."
        )


def _variables(assignment: Assignment, settings: Settings) -> dict[str, str]:
    """Return what the launcher would have set. Pure."""
    numbers = assignment.place._asdict().items()
    variables = {f"TNT_{name.upper()}": str(number) for name, number in numbers}
    variables["TNT_JOB_ID"] = assignment.job_id
    if assignment.rendezvous:
        variables["TNT_RENDEZVOUS"] = assignment.rendezvous
        variables["TNT_JOB_SECRET"] = settings.secret or assignment.secret
        variables["TNT_TRANSPORT"] = "ucx"  # GPI-2 would need more
    return variables


def _warner(rank: int, settings: Settings) -> Callable[[str], None]:
    """Return what shows a warning, as C++ does."""

    def warn(text: str) -> None:
        if settings.shows_warnings:
            sys.stderr.write(f"WARNING tnt-comm rank {rank}: {text}\n")

    return warn
