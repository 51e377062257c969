"""The ranks of another host, as the launcher sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.channel import Frame
from tnt_launch.log import HANDLER
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.planning.plan_text import host_plan_to_json
from tnt_launch.running.agent import Agent, Listener
from tnt_launch.running.board import Entry, from_fields

LOST = 255  # exit code of a rank whose host is lost; ssh gives the same when it loses a connection


class RemoteAgent(Agent):
    """The ranks of a host, through frames of its `HostAgent`; see `Agent`. Not thread-safe."""

    def __init__(
        self,
        node: int,
        plan: LaunchPlan,
        listener: Listener,
        send: Callable[[Frame], None],
        is_secret_known: bool,
    ) -> None:
        self.has_ended = False  # nothing of the job is left on its host, or that is lost
        self._node, self._plan, self._listener = node, plan.hosts[node], listener
        self._job = {"job_id": plan.job_id, "script": plan.script}
        self._send = send
        self._is_secret_known = is_secret_known
        self._pids: dict[int, int] = {}
        self._running = {rank.rank: False for rank in self._plan.ranks}
        self._failed: dict[int, Entry] = {}
        self._places: dict[int, str] = {}
        self._is_reading = True

    def start(self) -> None:
        """Have all ranks started; that it fails is raised by `take`."""
        self._tell(
            "start",
            plan=host_plan_to_json(self._plan, self._is_secret_known),
            **self._job,
        )

    def send_signal(self, number: int) -> None:
        """Have a signal sent to every rank that runs, and to all that they started."""
        self._tell("signal", number=int(number))

    def ask(self, number: int) -> None:
        """Have a signal of a scheduler sent to every rank that runs."""
        self._tell("ask", number=int(number))

    def note_end(self, rank: int, exit_code: int) -> None:
        """Let the ranks there know that one has ended before it has joined them."""
        self._tell("note_end", rank=rank, exit_code=exit_code)

    def places(self) -> dict[int, str]:
        """Return where ranks are in the user's script that have not joined the others."""
        return dict(self._places)

    def note_places(self, places: Mapping[int, str]) -> None:
        """Let the ranks there know where ranks of other hosts are."""
        self._tell("note_places", places=list(places.items()))

    def set_reading(self, is_reading: bool) -> None:
        """Stop or go on taking what the ranks write."""
        if is_reading != self._is_reading:
            self._is_reading = is_reading
            self._tell("read", is_reading=is_reading)

    def running(self) -> dict[int, bool]:
        """Return the ranks that have not ended, and whether each was stopped when last seen."""
        return dict(self._running)

    def failed(self) -> dict[int, Entry]:
        """Return what ranks have reported that have not ended, but failed."""
        return {rank: entry for rank, entry in self._failed.items() if rank in self._running}

    def pids(self) -> dict[int, int]:
        """Return the process ids of all ranks that were started."""
        return dict(self._pids)

    def end(self) -> None:
        """Have everything killed that is left; returns at once."""
        self._tell("end")

    def take(self, frame: Frame) -> None:
        """Deal with a frame; raise LaunchError if the ranks cannot be started there."""
        fields = frame.fields
        if frame.kind == "output":
            self._listener.on_output(fields["rank"], fields["stream"], frame.body)
        elif frame.kind == "failure":
            self._failed[fields["rank"]] = from_fields(**fields["told"], now=time.monotonic())
        elif frame.kind == "exit":
            told = from_fields(**fields["told"], now=time.monotonic())
            self._note_end(fields["rank"], fields["exit_code"], told)
        elif frame.kind == "started":
            self._pids = {int(rank): int(pid) for rank, pid in fields["pids"]}
        elif frame.kind == "states":
            self._running = {int(rank): bool(stopped) for rank, stopped in fields["running"]}
        elif frame.kind == "places":
            self._places = {int(rank): str(place) for rank, place in fields["places"]}
        elif frame.kind == "asked":
            self._listener.on_request(fields["number"])
        elif frame.kind == "message":
            HANDLER.write_line(frame.body)
        elif frame.kind == "failed":
            raise LaunchError(f"host {self._plan.host}: {fields['why']}")
        elif frame.kind == "ended":
            self.has_ended = True

    def lose(self, why: str) -> None:
        """Count all ranks of the host as lost."""
        self.has_ended = True
        for rank in tuple(self._running):
            self._running.pop(rank)
            self._listener.on_exit(rank, LOST, Entry(), f"host {self._plan.host} is lost: {why}")

    def _note_end(self, rank: int, exit_code: int, told: Entry) -> None:
        self._running.pop(rank, None)
        self._listener.on_exit(rank, exit_code, told)

    def _tell(self, kind: str, **fields: object) -> None:
        self._send(Frame(kind, self._node, fields))
