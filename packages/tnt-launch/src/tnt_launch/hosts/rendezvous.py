"""Hosts whose launchers have been started by hand, and that meet at one address."""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.authentication import Server
from tnt_launch.hosts.channel import Channel, Frame
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.log import LOGGER
from tnt_launch.planning.addresses import address_on, own_addresses
from tnt_launch.planning.host_facts import version_difference
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, Rendezvous
from tnt_launch.planning.variables import INTERFACE, TIMEOUT_S

RENDEZVOUS_S = 600.0  # time that all launchers have to come, unless the user says another
TELL_S = 30.0  # time after which the user is told who has not come
PENDING_S = 10.0  # time that whoever connects has to prove that it knows the secret

MAX_PENDING = 64
MAX_PENDING_FRAME = 4096

MAX_MEMBER_FRAME = 1 << 22

_REPORT_S = 60.0
_ADVICE = (
    "Start one launcher for each --node-rank, with the same --nnodes, --rendezvous and secret; "
    "look at their output and at firewalls."
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
    listener.setblocking(False)
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


@dataclass
class _Connection:
    """A connection of which nothing is known yet."""

    channel: Channel
    address: str
    since: float
    handshake: Server | None = None
    is_authenticated: bool = False


class RendezvousCluster(Cluster):
    """Node 0 and the launchers that connect to it; see `Cluster`."""

    shares_secret = True

    def __init__(
        self, spec: LaunchSpec, settings: Settings, rendezvous: Rendezvous, secret: str
    ) -> None:
        super().__init__(spec, settings, sys.executable)
        self._rendezvous, self._secret = rendezvous, secret.encode()
        others = [HostSlots(f"of node {node}") for node in range(1, rendezvous.num_nodes)]
        self.hosts = [HostSlots(os.uname().nodename, spec.ranks_per_node), *others]
        self.here = 0
        self._pending: list[_Connection] = []
        self._come = {0}
        self._num_refused = 0
        self._listener = listen(rendezvous, settings.get(INTERFACE) or "")
        self.selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, LaunchError):
            self.leave(2, str(error))
        elif isinstance(error, KeyboardInterrupt):  # after that which has ended the job
            self.leave(128 + signal.SIGINT)
        self._stop_listening()
        super().__exit__(kind, error, trace)

    def leave(self, exit_code: int, why: str = "") -> None:
        """Tell the other launchers how the job has ended."""
        for node in self._come - {0}:
            self._children.send(Frame("leave", node, {"exit_code": exit_code, "why": why}))

    def _reach(self) -> float:
        reached_at = self._listener.getsockname()[0]
        self.facts[0] = replace(self._inspect_here(), reached_at=reached_at)
        limit_s = self._settings.get(TIMEOUT_S) or RENDEZVOUS_S
        begin = time.monotonic()
        is_told = False
        while len(self._come) < self._rendezvous.num_nodes:
            waited_s = time.monotonic() - begin
            if waited_s > limit_s:
                raise LaunchError(f"{self._who_is_missing()} within {limit_s:g} s. {_ADVICE}")
            if waited_s > TELL_S and not is_told:
                LOGGER.warning("%s for %d s. %s", self._who_is_missing(), waited_s, _ADVICE)
                is_told = True
            self._wait(time.monotonic() + 0.5)
            self._drop_silent()
        self._stop_listening()
        return _REPORT_S

    def _hello(self) -> dict[str, Any]:
        return {
            **super()._hello(),
            "environment": None,
            "working_directory": None,
            "program": list(self._spec.program),
            "interpreter": None,
        }

    def _who_is_missing(self) -> str:
        missing = sorted(set(range(self._rendezvous.num_nodes)) - self._come)
        shown = ", ".join(str(node) for node in missing[:8]) + (", ..." if missing[8:] else "")
        return f"--node-rank {shown} of --nnodes {self._rendezvous.num_nodes} did not come"

    def _accept(self) -> None:
        try:
            accepted, address = self._listener.accept()
        except OSError:  # gone again, or too many open files: others are served meanwhile
            return
        with accepted:
            read_fd, write_fd = os.dup(accepted.fileno()), os.dup(accepted.fileno())

        def refuse(why: str) -> None:
            self._refuse(connection, why)

        connection = _Connection(
            Channel(
                self.selector,
                read_fd,
                write_fd,
                lambda frame: self._hear(connection, frame),
                refuse,
            ),
            str(address[0]),
            time.monotonic(),
        )
        connection.channel.reader.max_size = MAX_PENDING_FRAME
        connection.handshake = Server(connection.channel, self._secret, refuse)
        self._pending.append(connection)
        if len(self._pending) > MAX_PENDING:
            self._refuse(self._pending[0], "too many connections say nothing")

    def _hear(self, connection: _Connection, frame: Frame) -> None:
        if connection.is_authenticated:
            self._let_in(connection, frame)
        elif connection.handshake is not None and connection.handshake.take(frame):
            connection.is_authenticated = True
            connection.channel.reader.max_size = MAX_MEMBER_FRAME

    def _let_in(self, connection: _Connection, frame: Frame) -> None:
        node, why = frame.node, self._why_not(frame)
        if why:
            connection.channel.send(Frame("leave", node, {"exit_code": 2, "why": why}))
            connection.channel.flush(1.0)
            self._refuse(connection, why)
            return
        self._pending.remove(connection)
        self._come.add(node)
        self.hosts[node] = HostSlots(frame.fields["host"], frame.fields["slots"])
        self._children.adopt(node, connection.channel)
        self._greet(node)

    def _why_not(self, frame: Frame) -> str:
        fields: Mapping[str, Any] = frame.fields
        if frame.kind != "join":
            return "it does not join"
        difference = version_difference(f"node {frame.node}", fields["version"], "node 0")
        if difference:
            return difference
        if fields["num_nodes"] != self._rendezvous.num_nodes:
            return (
                f"node {frame.node} says --nnodes {fields['num_nodes']}, node 0 says "
                f"{self._rendezvous.num_nodes}"
            )
        if not 0 < frame.node < self._rendezvous.num_nodes:
            return f"--node-rank {frame.node} is none of --nnodes {self._rendezvous.num_nodes}"
        if tuple(fields["program"]) != self._spec.program:
            return f"node {frame.node} is to run {fields['program']}, node 0 {self._spec.program}"
        if frame.node in self._come:
            return f"--node-rank {frame.node} has been given to two launchers"
        return ""

    def _refuse(self, connection: _Connection, why: str) -> None:
        connection.channel.close()
        if connection in self._pending:
            self._pending.remove(connection)
            self._num_refused += 1
            if self._num_refused <= 5:
                LOGGER.warning("a connection from %s was refused: %s", connection.address, why)

    def _drop_silent(self) -> None:
        now = time.monotonic()
        for connection in tuple(self._pending):
            if now - connection.since > PENDING_S:
                self._refuse(connection, f"it has said nothing useful for {PENDING_S:g} s")

    def _stop_listening(self) -> None:
        for connection in tuple(self._pending):
            connection.channel.close()
        self._pending.clear()
        if self._listener.fileno() >= 0:
            self.selector.unregister(self._listener)
            self._listener.close()
