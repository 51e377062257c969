"""The hosts of a job as its launcher sees them: connected first, then with an agent each."""

from __future__ import annotations

import os
import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any, TypeVar

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.channel import Frame
from tnt_launch.hosts.children import Children
from tnt_launch.hosts.remote_agent import RemoteAgent
from tnt_launch.log import HANDLER, LOGGER
from tnt_launch.numbers import listed
from tnt_launch.planning.host_facts import (
    HostFacts,
    inspect_addresses,
    inspect_host,
    version_difference,
)
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.plan import LaunchPlan
from tnt_launch.planning.rank_environment import make_job_secret
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, check_program, working_folder
from tnt_launch.planning.variables import GPUS_PER_NODE, LOG_LEVEL
from tnt_launch.running.agent import Agent, Listener, LocalAgent

CLOCKS_S = 5.0  # time that all hosts have to tell the time
END_S = 5.0  # time that all hosts have to end what is left of a job


_Cluster = TypeVar("_Cluster", bound="Cluster")


class Cluster(ABC):
    """The hosts of one job; a context manager and a `Hosts`. Not thread-safe."""

    shares_secret = False  # whether all hosts know the job's secret without being told

    def __init__(
        self, spec: LaunchSpec, settings: Settings, interpreter: str, secret: str = ""
    ) -> None:
        self.secret = secret or make_job_secret()  # by which ranks trust each other
        self.selector: selectors.BaseSelector = selectors.PollSelector()
        self.hosts: list[HostSlots] = []
        self.facts: dict[int, HostFacts] = {}  # of the hosts that have told about themselves
        self.here: int | None = None  # which host is this one
        self._spec, self._settings = spec, settings
        self._children = Children(self.selector, self._take, self._lose, interpreter)
        self._errors: dict[int, str] = {}
        self._clocks: dict[int, float] = {}
        self._agents: dict[int, RemoteAgent] = {}

    def __enter__(self: _Cluster) -> _Cluster:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._children.close()
        self.selector.close()

    def connect(self) -> list[HostFacts]:
        """Reach all hosts and return what they are like; a LaunchError names all that fail."""
        outcomes = self.try_to_connect()
        if self._errors:
            alike: dict[str, list[str]] = {}
            for node, why in sorted(self._errors.items()):
                alike.setdefault(why, []).append(self.hosts[node].name)
            texts = [
                f"host{'s' * (len(names) > 1)} {listed(names)}: {why}"
                for why, names in alike.items()
            ]
            raise LaunchError("; ".join(texts))
        return [outcome for outcome in outcomes if isinstance(outcome, HostFacts)]

    def try_to_connect(self) -> list[HostFacts | str]:
        """Reach what hosts can be reached; return what each is like, or why it cannot take part."""
        end = time.monotonic() + self._reach()
        while missing := self._missing():
            if time.monotonic() > end:
                self._errors.update(dict.fromkeys(missing, "it did not answer in time"))
            else:
                self._wait(end)
        return [self.facts.get(node) or self._errors[node] for node in range(len(self.hosts))]

    def clock_differences(self) -> dict[int, float]:
        """Return by how many seconds the clock of each other host that was reached is ahead."""
        # Exact up to half the time that the answer took.
        asked = [node for node in self.facts if node != self.here]
        for node in asked:
            self._children.send(Frame("clock", node, {"asked_at": time.time()}))
        end = time.monotonic() + CLOCKS_S
        while len(self._clocks) < len(asked) and time.monotonic() < end:
            self._wait(end)
        return dict(self._clocks)

    def agents(self, plan: LaunchPlan, listener: Listener, is_rank_0_direct: bool) -> list[Agent]:
        """Return an agent for each host of `plan`; see `Hosts`."""
        agents: list[Agent] = []
        for node, host_plan in enumerate(plan.hosts):
            if node == self.here:
                is_direct = is_rank_0_direct and node == 0
                job = plan.job_id, plan.script
                agents.append(LocalAgent(host_plan, self.selector, listener, is_direct, *job))
            else:
                self._agents[node] = RemoteAgent(
                    node, plan, listener, self._children.send, self.shares_secret
                )
                agents.append(self._agents[node])
        return agents

    def tick(self, now: float) -> float | None:
        """Look for silent hosts; see `Hosts`."""
        return self._children.tick(now)

    def announce_stop(self, is_stopped: bool) -> None:
        """Tell all hosts that this process is about to be stopped, or goes on; see `Hosts`."""
        self._children.announce_stop(is_stopped)

    def wait_for_end(self) -> None:
        """Wait until nothing of the job is left on any host; see `Hosts`."""
        end = time.monotonic() + END_S
        while late := [n for n, agent in self._agents.items() if not agent.has_ended]:
            if time.monotonic() > end:
                names = ", ".join(self.hosts[node].name for node in late)
                LOGGER.warning(
                    "it is unknown whether all ranks have ended on: %s [end-unknown]", names
                )
                return
            self._wait(end)

    @abstractmethod
    def _reach(self) -> float:
        """Begin to reach all hosts; return how many seconds they have to tell about themselves."""

    def _lose_unseen(self, node: int, why: str) -> None:
        """Deal with the loss of a host that has no agent yet."""
        self._errors[node] = why

    def _hello(self) -> dict[str, Any]:
        """Return what an agent is asked, for all ways to reach it."""
        return {
            "environment": {},
            "defaults": {},
            "working_directory": working_folder(),
            "program": list(self._spec.program),
            "interpreter": list(self._spec.interpreter),
            "exports": dict(self._settings.exports),
            "num_gpus": self._settings.get(GPUS_PER_NODE),
            "allow_gpus": self._spec.allow_gpus,
            "log_level": self._settings.get(LOG_LEVEL) or "WARNING",
        }

    @cached_property
    def _greeting(self) -> dict[str, Any]:
        return self._hello()  # the same for all hosts

    def _greet(self, node: int) -> None:
        self._children.send(Frame("hello", node, self._greeting))

    def _inspect_here(self) -> HostFacts:
        check_program(self._spec)
        facts = inspect_host(self._settings, os.environ, self._spec.allow_gpus)
        return inspect_addresses(facts, os.environ)

    def _missing(self) -> list[int]:
        return sorted({*range(len(self.hosts))} - {*self.facts} - {*self._errors})

    def _wait(self, end: float) -> None:
        due = self.tick(time.monotonic())
        until = min(end, due) if due is not None else end
        for key, _ in self.selector.select(max(until - time.monotonic(), 0)):
            key.data()

    def _take(self, frame: Frame) -> None:
        node = frame.node
        if frame.kind == "lost":
            self._children.forget(node)
            self._lose(node, frame.fields["why"])
        elif node in self._agents:
            self._agents[node].take(frame)
        elif frame.kind == "message":
            HANDLER.write_line(frame.body)
        elif frame.kind == "report":
            self._take_report(node, frame.fields["version"], frame.fields["report"])
        elif frame.kind == "refused":
            self._errors[node] = frame.fields["why"]
        elif frame.kind == "clock":
            between = (frame.fields["asked_at"] + time.time()) / 2
            self._clocks[node] = frame.fields["time"] - between

    def _take_report(self, node: int, version: str, report: Mapping[str, Any]) -> None:
        difference = version_difference("it", version, "this host")
        if difference:
            self._errors[node] = difference
        else:
            self.facts[node] = HostFacts(**report)

    def _lose(self, node: int, why: str) -> None:
        if node not in self._agents:
            self._lose_unseen(node, why)
        elif not self._agents[node].has_ended:
            self._agents[node].lose(why)
