"""A launcher that was started by hand and serves the one on node 0."""

from __future__ import annotations

import os
import selectors
import socket
import time

from tnt_launch.errors import LaunchError
from tnt_launch.hosts.authentication import Client
from tnt_launch.hosts.channel import Channel, Frame
from tnt_launch.hosts.host_agent import HostAgent, JoiningHost
from tnt_launch.hosts.rendezvous import RENDEZVOUS_S
from tnt_launch.log import LOGGER, write_to_stderr
from tnt_launch.planning.host_facts import own_version
from tnt_launch.planning.settings import Settings
from tnt_launch.planning.spec import LaunchSpec, Rendezvous
from tnt_launch.planning.variables import JOB_SECRET, TIMEOUT_S
from tnt_launch.running.signals import SignalInbox

RETRY_S = 0.5
CONNECT_S = 5.0


class JoiningAgent(HostAgent):
    """A `HostAgent` that has come by itself: both ends first prove that they know the secret."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        inbox: SignalInbox,
        own: JoiningHost,
        secret: bytes,
        join: Frame,
    ) -> None:
        super().__init__(selector, inbox, own)
        self.is_authenticated = False
        self._secret, self._join = secret, join

    def _greet(self, parent: Channel) -> None:
        client = Client(parent, self._secret, self._stop)

        def take(frame: Frame) -> None:
            if client.take(frame):
                self.is_authenticated = True
                parent.hand_over(self._take, self._stop)
                parent.send(self._join)

        parent.hand_over(take, self._stop)


def serve(
    connection: socket.socket, interpreter: tuple[str, ...] | None, secret: str, join: Frame
) -> JoiningAgent:
    """Serve the launcher at the other end of a connection until that ends the agent, or is gone."""
    way = JoiningHost(interpreter, connection.getsockname()[0], connection.getpeername()[0])
    os.environ[JOB_SECRET.name] = secret  # for the ranks; the launcher does not send it
    with selectors.PollSelector() as selector, SignalInbox() as inbox:
        agent = JoiningAgent(selector, inbox, way, secret.encode(), join)
        agent.serve(os.dup(connection.fileno()), os.dup(connection.fileno()))
    return agent


def join_job(spec: LaunchSpec, settings: Settings, rendezvous: Rendezvous, secret: str) -> int:
    """Serve node 0 until the job has ended, and return its exit code."""
    with _connect(rendezvous, settings.get(TIMEOUT_S) or RENDEZVOUS_S) as connection:
        agent = serve(connection, spec.interpreter, secret, _join(spec, rendezvous))
    at = f"node 0 at {rendezvous.host}:{rendezvous.port}"
    if not agent.is_authenticated:
        raise LaunchError(
            f"{at} uses a different secret, or is not a Tarantella launcher ({agent.why}). If the "
            "hosts do not share a home directory, set TNT_JOB_SECRET to the same value on all of "
            "them."
        )
    if agent.exit_code == 2:
        raise LaunchError(f"{at}: {agent.why}")
    if agent.why:
        write_to_stderr(f"tarantella: {at}: {agent.why}\n".encode(errors="backslashreplace"))
    return agent.exit_code


def _connect(rendezvous: Rendezvous, limit_s: float) -> socket.socket:
    """Connect as soon as node 0 listens."""
    end = time.monotonic() + limit_s
    is_told = False
    while True:
        try:
            return socket.create_connection((rendezvous.host, rendezvous.port), CONNECT_S)
        except OSError as error:
            reason = error.strerror or str(error)
        where = f"node 0 at {rendezvous.host}:{rendezvous.port}"
        if time.monotonic() > end:
            raise LaunchError(
                f"{where} did not answer within {limit_s:g} s: {reason}. Has it been started, "
                "with the same --rendezvous?"
            )
        if not is_told:
            LOGGER.info("waiting for %s: %s", where, reason)
            is_told = True
        time.sleep(RETRY_S)


def _join(spec: LaunchSpec, rendezvous: Rendezvous) -> Frame:
    return Frame(
        "join",
        rendezvous.node_rank,
        {
            "host": os.uname().nodename,
            "slots": spec.ranks_per_node,
            "num_nodes": rendezvous.num_nodes,
            "version": own_version(),
            "program": list(spec.program),
        },
    )
