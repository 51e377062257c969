"""Hosts that are reached by ssh, and which of them through which."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.hosts.frames import Frame
from tnt_launch.hosts.ssh import AGENT, carried_environment, remote_command
from tnt_launch.log import LOGGER
from tnt_launch.planning.addresses import is_this_host
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, working_folder

FAN_OUT = 32  # hosts that one process reaches itself; others are reached through these
CONNECT_S = 60.0  # time that all hosts have to be reached and to tell about themselves


def branches(nodes: Sequence[int], fan_out: int = FAN_OUT) -> list[Sequence[int]]:
    """Divide hosts, each branch reached through its first, so that sizes differ by at most one."""
    count = min(len(nodes), fan_out)
    bounds = [len(nodes) * i // count for i in range(count + 1)] if count else []
    return [nodes[begin:end] for begin, end in itertools.pairwise(bounds)]


class SshCluster(Cluster):
    """The hosts that a user has named; see `Cluster`."""

    def __init__(self, spec: LaunchSpec, settings: Settings) -> None:
        super().__init__(spec, settings, sys.executable)
        self.hosts = list(spec.hosts)
        here = [node for node, host in enumerate(self.hosts) if is_this_host(host.name)]
        if len(here) > 1:
            first, second = (self.hosts[node].name for node in here[:2])
            raise LaunchError(
                f"{first!r} and {second!r} are both this host. Name it once, with all its "
                f"ranks: {first}:N."
            )
        self.here = next(iter(here), None)
        self._via: dict[int, int] = {}  # by whose agent a host is reached, if not from here
        self._command = remote_command(sys.executable, os.environ, AGENT)

    def _reach(self) -> float:
        if self.here is not None:  # first, since it may take its time, in which nobody hears of us
            self.facts[self.here] = self._inspect_here()
        for head, *below in branches([n for n in range(len(self.hosts)) if n != self.here]):
            self._start(head, below)
        return CONNECT_S

    def _lose_unseen(self, node: int, why: str) -> None:
        if node in self.facts or node not in self._via:
            super()._lose_unseen(node, why)
            return
        # Keys and settings of ssh may be on this host alone.
        name, via = self.hosts[node].name, self.hosts[self._via.pop(node)].name
        LOGGER.warning("host %s is reached directly, as it is not from %s: %s", name, via, why)
        self._start_child(node)

    def _hello(self) -> dict[str, Any]:
        return {
            **super()._hello(),
            "environment": carried_environment(os.environ),
            "working_directory": working_folder(),
            "program": list(self._spec.program),
            "interpreter": list(self._spec.interpreter),
        }

    def _start(self, head: int, below: Sequence[int]) -> None:
        self._start_child(head)
        if below:
            hosts = [[node, self.hosts[node].name] for node in below]
            fields = {"hosts": hosts, "ssh": list(self._spec.ssh), "command": self._command}
            self._children.send(Frame("connect", head, fields))
        for node in below:
            self._via[node] = head
            self._children.assign(node, head)
            self._greet(node)

    def _start_child(self, node: int) -> None:
        name = self.hosts[node].name
        self._children.start(node, [*self._spec.ssh, name, self._command])
        self._greet(node)
