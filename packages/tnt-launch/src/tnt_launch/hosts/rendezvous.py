"""Hosts whose launchers have been started by hand, and that meet at one address."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.channel import Frame
from tnt_launch.hosts.dial_in import DialInCluster
from tnt_launch.log import LOGGER
from tnt_launch.planning.addresses import address_on, own_addresses
from tnt_launch.planning.host_facts import version_difference
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, Rendezvous
from tnt_launch.planning.variables import INTERFACE, TIMEOUT_S

RENDEZVOUS_S = 600.0  # time that all launchers have to come, unless the user says another
TELL_S = 30.0  # time after which the user is told who has not come
_REPORT_S = 60.0
_ADVICE = (
    "Start one launcher for each --node-rank, with the same --nnodes, --rendezvous and secret; "
    "check their output and firewalls."
)


def listen(rendezvous: Rendezvous, interface: str = "") -> socket.socket:
    """Listen where the launchers of a job meet."""
    # An interface is given if the host is known here by an address of another one.
    address = _own_address(rendezvous.host, interface)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, rendezvous.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        raise LaunchError(
            f"node 0 cannot listen at {address}, port {rendezvous.port}: {error.strerror}. Another "
            f"job may use it: give another port with --rendezvous on all hosts."
        ) from error
    return listener


def _own_address(host: str, interface: str) -> str:
    """Return the address of this host at which the others look for it."""
    own = own_addresses()
    if interface:
        return address_on(host, own, interface)
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise LaunchError(f"--rendezvous: {host}: {error.strerror}.") from error
    addresses = [str(entry[4][0]) for entry in found]
    mine = {entry.address for entry in own}
    for address in addresses:
        if address in mine:
            return address
    others = [address for address in dict.fromkeys(addresses) if address != host]
    meaning = f" ({', '.join(others)})" if others else ""
    raise LaunchError(
        f"--rendezvous names {host}{meaning}, which is not an address of this host, where "
        f"--node-rank 0 runs. Name this host, or give --interface."
    )


class RendezvousCluster(DialInCluster):
    """Node 0 and the launchers that connect to it; see `Cluster`."""

    def __init__(
        self, spec: LaunchSpec, settings: Settings, rendezvous: Rendezvous, secret: str
    ) -> None:
        super().__init__(spec, settings, secret)
        self._rendezvous = rendezvous
        others = [HostSlots(f"of node {node}") for node in range(1, rendezvous.num_nodes)]
        self.hosts = [HostSlots(os.uname().nodename, spec.ranks_per_node), *others]
        self.here = 0
        self._come = {0}
        listener = listen(rendezvous, settings.get(INTERFACE) or "")
        self._reached_at = listener.getsockname()[0]
        self._listen(listener)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, LaunchError):
            self.leave(2, str(error))
        elif isinstance(error, KeyboardInterrupt):  # after that which has ended the job
            self.leave(128 + signal.SIGINT)
        super().__exit__(kind, error, trace)

    def leave(self, exit_code: int, why: str = "") -> None:
        """Tell the other launchers how the job has ended."""
        for node in self._come - {0}:
            self._children.send(Frame("leave", node, {"exit_code": exit_code, "why": why}))

    def _reach(self) -> float:
        self.facts[0] = replace(self._inspect_here(), reached_at=self._reached_at)
        limit_s = self._settings.get(TIMEOUT_S) or RENDEZVOUS_S
        begin = time.monotonic()
        is_told = False
        while len(self._come) < self._rendezvous.num_nodes:
            waited_s = time.monotonic() - begin
            if waited_s > limit_s:
                raise LaunchError(f"{self._who_is_missing()} within {limit_s:g} s. {_ADVICE}")
            if waited_s > TELL_S and not is_told:
                LOGGER.warning(
                    "%s within %d s. %s [stall]", self._who_is_missing(), waited_s, _ADVICE
                )
                is_told = True
            self._wait(time.monotonic() + 0.5)
            self._drop_silent()
        self._stop_listening()
        return _REPORT_S

    def _hello(self) -> dict[str, Any]:
        # Each launcher has its own, as its user has started it.
        return {**super()._hello(), "working_directory": None, "interpreter": None}

    def _who_is_missing(self) -> str:
        missing = sorted(set(range(self._rendezvous.num_nodes)) - self._come)
        shown = ", ".join(str(node) for node in missing[:8]) + (", ..." if missing[8:] else "")
        return f"--node-rank {shown} of --nnodes {self._rendezvous.num_nodes} did not join"

    def _node_of(self, frame: Frame) -> int:
        return frame.node

    def _why_not(self, node: int, frame: Frame) -> str:
        fields: Mapping[str, Any] = frame.fields
        difference = version_difference(f"node {node}", fields["version"], "node 0")
        if difference:
            return difference
        if fields["num_nodes"] != self._rendezvous.num_nodes:
            return (
                f"node {node} says --nnodes {fields['num_nodes']}, node 0 says "
                f"{self._rendezvous.num_nodes}"
            )
        if not 0 < node < self._rendezvous.num_nodes:
            return f"--node-rank {node} is not below --nnodes {self._rendezvous.num_nodes}"
        if tuple(fields["program"]) != self._spec.program:
            return f"node {node} runs {fields['program']}, but node 0 runs {self._spec.program}"
        if node in self._come:
            return f"--node-rank {node} was given to two launchers"
        return ""
