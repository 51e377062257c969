"""Hosts whose agents connect to the launcher by themselves, and prove that they belong to it."""

from __future__ import annotations

import os
import selectors
import socket
import sys
import time
from abc import abstractmethod
from dataclasses import dataclass

from tnt_launch.hosts.authentication import Server
from tnt_launch.hosts.channel import Channel, Frame
from tnt_launch.hosts.cluster import Cluster
from tnt_launch.log import LOGGER
from tnt_launch.planning.hosts import HostSlots
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec

PENDING_S = 10.0  # time that whoever connects has to prove that it knows the secret

MAX_PENDING = 64
MAX_PENDING_FRAME = 4096

MAX_MEMBER_FRAME = 1 << 22


@dataclass
class _Connection:
    """A connection of which nothing is known yet."""

    channel: Channel
    address: str
    since: float
    handshake: Server | None = None
    is_authenticated: bool = False


class DialInCluster(Cluster):
    """Hosts whose agents connect to a socket of this process; see `Cluster`."""

    shares_secret = True

    def __init__(
        self, spec: LaunchSpec, settings: Settings, secret: str, max_pending: int = MAX_PENDING
    ) -> None:
        super().__init__(spec, settings, sys.executable, secret)
        self._max_pending = max_pending
        self._pending: list[_Connection] = []
        self._come: set[int] = set()
        self._num_refused = 0
        self._listener: socket.socket | None = None

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._stop_listening()
        super().__exit__(kind, error, trace)

    @abstractmethod
    def _node_of(self, frame: Frame) -> int:
        """Return the number of the host that joins by a frame, -1 if it is none of this job."""

    @abstractmethod
    def _why_not(self, node: int, frame: Frame) -> str:
        """Say why a host that knows the secret may not join, nothing if it may."""

    def _listen(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self.selector.register(listener, selectors.EVENT_READ, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
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
            str(address[0]).removeprefix("::ffff:"),  # IPv4 at a socket for both
            time.monotonic(),
        )
        connection.channel.reader.max_size = MAX_PENDING_FRAME
        connection.handshake = Server(connection.channel, self.secret.encode(), refuse)
        self._pending.append(connection)
        if len(self._pending) > self._max_pending:
            self._refuse(self._pending[0], "too many connections are silent")

    def _hear(self, connection: _Connection, frame: Frame) -> None:
        if connection.is_authenticated:
            self._let_in(connection, frame)
        elif connection.handshake is not None and connection.handshake.take(frame):
            connection.is_authenticated = True
            connection.channel.reader.max_size = MAX_MEMBER_FRAME

    def _let_in(self, connection: _Connection, frame: Frame) -> None:
        node = self._node_of(frame)
        why = "it did not ask to join" if frame.kind != "join" else self._why_not(node, frame)
        if why:
            connection.channel.send(Frame("leave", frame.node, {"exit_code": 2, "why": why}))
            connection.channel.flush(1.0)
            self._refuse(connection, why)
            return
        self._pending.remove(connection)
        self._come.add(node)
        self.hosts[node] = HostSlots(frame.fields["host"], frame.fields["slots"])
        self._children.adopt(node, connection.channel)
        self._greet(node)

    def _refuse(self, connection: _Connection, why: str) -> None:
        connection.channel.close()
        if connection in self._pending:
            self._pending.remove(connection)
            self._num_refused += 1
            if self._num_refused <= 5:
                LOGGER.warning(
                    "a connection from %s was refused: %s [connection-refused]",
                    connection.address,
                    why,
                )

    def _drop_silent(self) -> None:
        now = time.monotonic()
        for connection in tuple(self._pending):
            if now - connection.since > PENDING_S:
                self._refuse(connection, f"it has said nothing useful for {PENDING_S:g} s")

    def _stop_listening(self) -> None:
        for connection in tuple(self._pending):
            connection.channel.close()
        self._pending.clear()
        if self._listener is not None:
            self.selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
