"""The hosts of a job as its launcher sees them: connected first, then with an agent each."""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.carried_environment import carried_environment
from tnt_launch.hosts.children import Children
from tnt_launch.hosts.frames import Frame
from tnt_launch.hosts.host_report import HostReport, inspect
from tnt_launch.hosts.local_names import is_this_host
from tnt_launch.hosts.remote_agent import RemoteAgent
from tnt_launch.hosts.ssh import agent_command, ssh_command
from tnt_launch.hosts.tree import Branch, branches
from tnt_launch.hosts.version import own_version
from tnt_launch.log import LOGGER
from tnt_launch.planning.plan import HostPlan, JobName, LaunchPlan
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec
from tnt_launch.planning.variables import GPUS_PER_NODE, LOG_LEVEL
from tnt_launch.running.agent import Agent, Listener, LocalAgent

CONNECT_S = 60.0
"""Time that all hosts have to be reached and to tell about themselves."""

END_S = 5.0
"""Time that all hosts have to end what is left of a job."""


@dataclass
class _Host:
    """A host that is being connected.

    Attributes:
        name: As the user has named it.
        is_here: Whether it is the host of this process.
        via: Number of the host whose agent reaches it, `None` for this process.
        report: What it is like, once that is known.
    """

    name: str
    is_here: bool
    via: int | None = None
    report: HostReport | None = None


class Cluster:
    """The hosts of one job; a context manager and a `Hosts`. Not thread-safe."""

    def __init__(self, spec: LaunchSpec, settings: Settings) -> None:
        """Prepare to reach the hosts of `spec`; nothing is started."""
        self.selector: selectors.BaseSelector = selectors.PollSelector()
        self._spec, self._settings = spec, settings
        self._hosts = [_Host(host.name, is_this_host(host.name)) for host in spec.hosts]
        self._children = Children(self.selector, self._take, self._lose, sys.executable)
        self._errors: dict[int, str] = {}
        self._agents: dict[int, RemoteAgent] = {}

    def __enter__(self) -> Cluster:
        """Return this."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End all agents, and what they may have left."""
        self._children.close()
        self.selector.close()

    def connect(self) -> list[HostReport]:
        """Reach all hosts and return what they are like, in their order.

        Raises:
            LaunchError: If hosts cannot be reached, or are not as the job needs them; names all.
        """
        remote = [node for node, host in enumerate(self._hosts) if not host.is_here]
        for branch in branches(remote):
            self._start(branch)
        for host in self._hosts:
            if host.is_here:
                host.report = inspect(self._settings, os.environ, self._spec.allow_gpus)
        end = time.monotonic() + CONNECT_S
        while missing := self._missing():
            if time.monotonic() > end:
                late = f"did not answer within {CONNECT_S:g} s"
                self._errors.update(dict.fromkeys(missing, late))
                break
            self._wait(end)
        if self._errors:
            texts = [f"host {self._hosts[node].name}: {why}" for node, why in self._sorted_errors()]
            raise LaunchError("; ".join(texts))
        return [host.report for host in self._hosts if host.report is not None]

    def agents(self, plan: LaunchPlan, listener: Listener, is_rank_0_direct: bool) -> list[Agent]:
        """Return an agent for each host of `plan`; see `Hosts`."""
        agents: list[Agent] = []
        for node, host_plan in enumerate(plan.hosts):
            if self._hosts[node].is_here:
                is_direct = is_rank_0_direct and node == 0
                local = LocalAgent(host_plan, self.selector, listener, is_direct, plan.name)
                agents.append(local)
            else:
                agents.append(self._remote_agent(node, host_plan, listener, plan.name))
        return agents

    def _remote_agent(
        self, node: int, plan: HostPlan, listener: Listener, job: JobName
    ) -> RemoteAgent:
        self._agents[node] = RemoteAgent(node, plan, listener, job, self._children.send)
        return self._agents[node]

    def tick(self, now: float) -> float | None:
        """Look for silent hosts; see `Hosts`."""
        return self._children.tick(now)

    def wait_for_end(self) -> None:
        """Wait until nothing of the job is left on any host; see `Hosts`."""
        end = time.monotonic() + END_S
        while not all(agent.has_ended for agent in self._agents.values()):
            if time.monotonic() > end:
                late = [n for n, agent in self._agents.items() if not agent.has_ended]
                names = ", ".join(self._hosts[node].name for node in late)
                LOGGER.warning("it is not known whether the ranks have ended on: %s", names)
                return
            self._wait(end)

    def _start(self, branch: Branch) -> None:
        self._start_child(branch.head)
        if branch.below:
            hosts = [[node, self._hosts[node].name] for node in branch.below]
            fields = {"hosts": hosts, "ssh": list(self._spec.ssh), "command": self._command()}
            self._children.send(Frame("connect", branch.head, fields))
        for node in branch.below:
            self._hosts[node].via = branch.head
            self._children.assign(node, branch.head)
            self._children.send(Frame("hello", node, self._hello()))

    def _start_child(self, node: int) -> None:
        name = self._hosts[node].name
        self._children.start(node, ssh_command(self._spec.ssh, name, self._command()))
        self._children.send(Frame("hello", node, self._hello()))

    def _command(self) -> str:
        return agent_command(sys.executable, os.environ)

    def _hello(self) -> Mapping[str, Any]:
        return {
            "environment": carried_environment(os.environ),
            "working_directory": os.getcwd(),
            "program": list(self._spec.program),
            "interpreter": list(self._spec.interpreter),
            "exports": dict(self._settings.exports),
            "num_gpus": self._settings.get(GPUS_PER_NODE),
            "allow_gpus": self._spec.allow_gpus,
            "log_level": self._settings.get(LOG_LEVEL) or "WARNING",
        }

    def _missing(self) -> list[int]:
        return [
            node
            for node, host in enumerate(self._hosts)
            if host.report is None and node not in self._errors
        ]

    def _sorted_errors(self) -> Sequence[tuple[int, str]]:
        return sorted(self._errors.items())

    def _wait(self, end: float) -> None:
        now = time.monotonic()
        due = self.tick(now)
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
        elif frame.kind == "report":
            self._take_report(node, frame.fields["version"], frame.fields["report"])
        elif frame.kind == "refused":
            self._errors[node] = frame.fields["why"]

    def _take_report(self, node: int, version: str, report: Mapping[str, Any]) -> None:
        if version != own_version():
            self._errors[node] = (
                f"has tarantella {version or '(not installed)'}, this host has {own_version()}. "
                "Install the same version on all hosts."
            )
            return
        self._hosts[node].report = HostReport.from_json(report)

    def _lose(self, node: int, why: str) -> None:
        host = self._hosts[node]
        if node in self._agents:
            if not self._agents[node].has_ended:
                self._agents[node].lose(why)
        elif host.via is not None and host.report is None:
            # Keys and settings of ssh may be on this host alone.
            through = self._hosts[host.via].name
            LOGGER.warning(
                "host %s is reached directly, as not from %s: %s", host.name, through, why
            )
            host.via = None
            self._start_child(node)
        else:
            self._errors[node] = why
