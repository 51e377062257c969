"""Rank 0, to which all other processes of a start connect."""

from __future__ import annotations

import contextlib
import math
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tnt_comm.errors import CommError, PeerLostError
from tnt_comm.start.authentication import AuthenticationError, ServerHandshake, derived
from tnt_comm.start.numbering import number_ranks, this_host
from tnt_comm.start.rendezvous import (
    LINGER_S,
    LOOK_S,
    PROOF_S,
    Assignment,
    Clock,
    Loss,
    RendezvousPlan,
    Wait,
    loss_in,
    loss_of,
    message_of,
    message_of_places,
    places_in,
    send_rest,
)
from tnt_comm.start.signed_connection import Message, SignedConnection

_MAX_PENDING = 64
_MOST_NAMES = 10  # of ranks in a message


@dataclass
class _Peer:
    """A process that has connected to rank 0."""

    connection: SignedConnection
    handshake: ServerHandshake | None
    begin: float = field(default_factory=time.monotonic)
    rank: int | None = None
    host: str = ""
    is_joining: bool = False
    has_joined: bool = False


class RendezvousServer:
    """Rank 0, to which all others connect."""

    def __init__(self, plan: RendezvousPlan) -> None:
        self._plan = plan
        self._listener: socket.socket | None = plan.endpoint.listen()
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._pending: list[_Peer] = []
        self._others: dict[int, _Peer] = {}
        self.loss: Loss | None = None
        self.last_words: Message | None = None
        self.places: dict[int, str] = {}
        self.is_joining = False
        self._timeout_s = math.inf  # for all to join once each has come to its first collective
        self._has_come_at: float | None = None  # when all had

    def meet(self, wait: Wait) -> Assignment:
        """Wait until all have come, and tell each its place."""
        clock, self._timeout_s = Clock(wait, 0), wait.timeout_s
        try:
            while len(self._others) < self._plan.size - 1:
                self._serve()
                if self.loss is not None:
                    raise self.loss.error()
                clock.look(self._missing())
        except BaseException as error:
            loss = self.loss or loss_of(0, error)
            if isinstance(error, PeerLostError):
                self._tell_late_ones(loss, self._num_that_may_come(loss))
            else:
                self._tell(loss)
            raise
        self._close_listener()
        return self._assign()

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Pass on who has ended or failed, until all others have joined."""
        is_told, told = False, dict(self.places)
        while self.loss is None and not all(each.has_joined for each in self._others.values()):
            self._serve()
            if self.places != told:
                told = dict(self.places)
                self._send(message_of_places(told))
            if has_joined() and not is_told:
                is_told = True
                self._send({"joined": True})
            if self.last_words is not None:
                self.loss = loss_in(0, self.last_words)
            elif self.loss is None:
                self.loss = self._late_joining()
        if self.loss is not None:
            self._tell(self.loss)
        self.close()
        return None if has_joined() else self.loss

    def _late_joining(self) -> Loss | None:
        """Return that the ranks do not reach each other, though all try to."""
        if not self.is_joining or not all(each.is_joining for each in self._others.values()):
            return None
        self._has_come_at = self._has_come_at or time.monotonic()
        if time.monotonic() - self._has_come_at < self._timeout_s:
            return None
        return Loss(
            0,
            "all ranks have reached their first collective, but have not joined within "
            f"{self._timeout_s:g} s (TNT_TIMEOUT_S). Does a firewall block ports of the hosts?",
            is_late=True,
        )

    def fail(self, text: str, num_substitutes: int = 0) -> None:
        """Tell the others, but for those that listen here in the place of a lost rank 0."""
        self._tell_late_ones(Loss(0, text), self._plan.size - 1 - num_substitutes)

    def _num_that_may_come(self, loss: Loss) -> int:
        """Return how many others may come: a lost one that has not, will not."""
        is_away = loss.rank != 0 and loss.rank not in self._others
        return self._plan.size - 1 - is_away

    def _tell_late_ones(self, loss: Loss, num_others: int) -> None:
        """Tell the others; those that have not come yet, too, if they come soon."""
        self._tell(loss)
        end = time.monotonic() + LINGER_S
        with contextlib.suppress(CommError):
            while len(self._others) < num_others and time.monotonic() < end:
                known = len(self._others)
                self._serve()
                if len(self._others) > known:
                    self._tell(loss)

    def close(self) -> None:
        """Close all sockets."""
        for peer in [*self._pending, *self._others.values()]:
            peer.connection.close()
        if self._listener is not None:
            self._listener.close()

    def _assign(self) -> Assignment:
        hosts = {0: this_host(), **{rank: one.host for rank, one in self._others.items()}}
        places = number_ranks(hosts)
        others = (one for rank, one in self._others.items() if hosts[rank] != hosts[0])
        address = next((one.connection.own_address for one in others), "")
        rendezvous = self._plan.rendezvous(address)
        job_id = secrets.token_hex(8)
        common = {"job_id": job_id, "rendezvous": rendezvous}
        for rank, peer in self._others.items():
            peer.connection.send({"place": places[rank], **common})
        secret = derived(self._plan.trust.secret({}), job_id)
        return Assignment(places[0], job_id, secret, rendezvous)

    def _missing(self) -> str:
        there = {0, *self._others}
        return _names(rank for rank in range(self._plan.size) if rank not in there)

    def _serve(self) -> None:
        """Let all connections go on, and wait for a moment until one can."""
        for key, _ in self._selector.select(LOOK_S):
            if key.fileobj is self._listener:
                self._accept()
            else:
                key.data.connection.receive()
                self._look_at(key.data)
        for peer in [*self._pending, *self._others.values()]:
            peer.connection.flush()
        limit = time.monotonic() - PROOF_S
        for pending in [one for one in self._pending if one.begin < limit]:
            self._drop(pending)

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError):
            accepted, _ = self._listener.accept()
            if len(self._pending) >= _MAX_PENDING + self._plan.size:
                self._drop(self._pending[0])
            trust = self._plan.trust
            try:
                trust.check(accepted)
                connection = SignedConnection(accepted)
                peer = _Peer(connection, ServerHandshake(connection, trust))
            except AuthenticationError:
                accepted.close()
                return
            self._pending.append(peer)
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def _look_at(self, peer: _Peer) -> None:
        try:
            if peer.handshake is not None and peer.handshake.advance():
                peer.handshake = None
            if peer.handshake is None:
                while (message := peer.connection.take()) is not None:
                    self._take(peer, message)
        except CommError:
            self._drop(peer)
        if not peer.connection.is_open:
            self._drop(peer)

    def _take(self, peer: _Peer, message: Message) -> None:
        if peer.rank is None:
            self._admit(peer, message)
        if "end" in message and self.loss is None and peer.rank is not None:
            self.loss = loss_in(peer.rank, message)
        self.places.update(places_in(message))
        peer.is_joining = bool(message.get("joining", peer.is_joining))
        peer.has_joined = peer.has_joined or "joined" in message

    def _admit(self, peer: _Peer, message: Message) -> None:
        rank, size = message.get("rank"), message.get("size")
        refusal = ""
        if size != self._plan.size or not isinstance(rank, int) or not 0 < rank < size:
            refusal = (
                f"it is rank {rank} of {size}, but the job of rank 0 has {self._plan.size} ranks"
            )
        elif rank in self._others:
            refusal = (
                f"rank {rank} has already joined: a program that a rank starts is not a rank itself"
            )
        if refusal:
            peer.connection.send({"refused": refusal})
            raise AuthenticationError(refusal)
        assert isinstance(rank, int)
        peer.rank, peer.host = rank, str(message.get("host", ""))
        self._pending.remove(peer)
        self._others[rank] = peer

    def _drop(self, peer: _Peer) -> None:
        """Be done with a connection; that of a process that has not joined is a loss."""
        if peer in self._pending:
            self._pending.remove(peer)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.connection)
        if peer.rank is not None and not peer.has_joined and self.loss is None:
            self.loss = Loss(
                peer.rank,
                f"rank {peer.rank} on {_name_in(peer.host)} has ended before all ranks had "
                "joined the job. See its output.",
            )
        peer.connection.close()

    def _tell(self, loss: Loss) -> None:
        """Tell all others that are there still."""
        self._send(message_of(loss), but=loss.rank)
        send_rest(peer.connection for peer in self._others.values())

    def _send(self, message: Message, but: int = 0) -> None:
        """Send a message to all others that have not joined."""
        for rank, peer in self._others.items():
            if peer.connection.is_open and not peer.has_joined and rank != but:
                peer.connection.send(message)

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for pending in list(self._pending):
            self._drop(pending)


def _name_in(host: str) -> str:
    return host.partition(" ")[0]


def _names(ranks: Iterable[int]) -> str:
    shown = [str(rank) for rank in ranks]
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ("rank " if len(shown) == 1 else "ranks ") + ", ".join(shown[:_MOST_NAMES]) + more
