"""Rank 0, to which all other processes of a start connect."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tnt_comm.errors import CommError, PeerLostError
from tnt_comm.start.meeting import (
    LINGER_S,
    LOOK_S,
    PROOF_S,
    Appointment,
    Assignment,
    Clock,
    Loss,
    Wait,
    loss_in,
    loss_of,
    message_of,
    send_rest,
)
from tnt_comm.start.numbering import number_ranks, this_host
from tnt_comm.start.stream import Message, Stream
from tnt_comm.start.trust import Greeting, StrangerError, derived

_MOST_STRANGERS = 64
_MOST_NAMES = 10  # of ranks in a message


@dataclass
class _Visitor:
    """A process that has connected to rank 0."""

    stream: Stream
    greeting: Greeting | None
    begin: float = field(default_factory=time.monotonic)
    rank: int | None = None
    host: str = ""
    has_joined: bool = False


class Host:
    """Rank 0, to which all others connect."""

    def __init__(self, appointment: Appointment) -> None:
        self._appointment = appointment
        self._listener: socket.socket | None = appointment.endpoint.listen()
        self._listener.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._strangers: list[_Visitor] = []
        self._others: dict[int, _Visitor] = {}
        self.loss: Loss | None = None
        self.last_words: Message | None = None

    def meet(self, wait: Wait) -> Assignment:
        """Wait until all have come, and tell each its place."""
        clock = Clock(wait, 0)
        try:
            while len(self._others) < self._appointment.size - 1:
                self._serve()
                if self.loss is not None:
                    raise self.loss.error()
                clock.look(self._missing())
        except BaseException as error:
            loss = self.loss or loss_of(0, error)
            if isinstance(error, PeerLostError):
                self._tell_late_ones(loss)
            else:
                self._tell(loss)
            raise
        self._close_listener()
        return self._assign()

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Pass on who has ended or failed, until all others have joined."""
        is_told = False
        while self.loss is None and not all(each.has_joined for each in self._others.values()):
            self._serve()
            if has_joined() and not is_told:
                is_told = True
                self._send({"joined": True})
            if self.last_words is not None:
                self.loss = loss_in(0, self.last_words)
        if self.loss is not None:
            self._tell(self.loss)
        self.close()
        return None if has_joined() else self.loss

    def fail(self, text: str) -> None:
        """Tell the others."""
        self._tell_late_ones(Loss(0, text))

    def _tell_late_ones(self, loss: Loss) -> None:
        """Tell the others; those that have not come yet, too, if they come soon."""
        self._tell(loss)
        end = time.monotonic() + LINGER_S
        with contextlib.suppress(CommError):
            while len(self._others) < self._appointment.size - 1 and time.monotonic() < end:
                known = len(self._others)
                self._serve()
                if len(self._others) > known:
                    self._tell(loss)

    def close(self) -> None:
        """Close all sockets."""
        for visitor in [*self._strangers, *self._others.values()]:
            visitor.stream.close()
        if self._listener is not None:
            self._listener.close()

    def _assign(self) -> Assignment:
        hosts = {0: this_host(), **{rank: one.host for rank, one in self._others.items()}}
        places = number_ranks(hosts)
        others = (one for rank, one in self._others.items() if hosts[rank] != hosts[0])
        address = next((one.stream.own_address for one in others), "")
        rendezvous = self._appointment.rendezvous(address)
        job_id = secrets.token_hex(8)
        common = {"job_id": job_id, "rendezvous": rendezvous}
        for rank, visitor in self._others.items():
            visitor.stream.send({"place": places[rank], **common})
        secret = derived(self._appointment.trust.secret({}), job_id)
        return Assignment(places[0], job_id, secret, rendezvous)

    def _missing(self) -> str:
        there = {0, *self._others}
        return _names(rank for rank in range(self._appointment.size) if rank not in there)

    def _serve(self) -> None:
        """Let all connections go on, and wait for a moment until one can."""
        for key, _ in self._selector.select(LOOK_S):
            if key.fileobj is self._listener:
                self._accept()
            else:
                key.data.stream.receive()
                self._look_at(key.data)
        for visitor in [*self._strangers, *self._others.values()]:
            visitor.stream.flush()
        limit = time.monotonic() - PROOF_S
        for stranger in [one for one in self._strangers if one.begin < limit]:
            self._drop(stranger)

    def _accept(self) -> None:
        assert self._listener is not None
        with contextlib.suppress(BlockingIOError):
            connection, _ = self._listener.accept()
            if len(self._strangers) >= _MOST_STRANGERS + self._appointment.size:
                self._drop(self._strangers[0])
            trust = self._appointment.trust
            try:
                trust.check(connection)
                stream = Stream(connection)
                visitor = _Visitor(stream, Greeting(stream, trust))
            except StrangerError:
                connection.close()
                return
            self._strangers.append(visitor)
            self._selector.register(stream, selectors.EVENT_READ, visitor)

    def _look_at(self, visitor: _Visitor) -> None:
        try:
            if visitor.greeting is not None and visitor.greeting.advance():
                visitor.greeting = None
            if visitor.greeting is None:
                while (message := visitor.stream.take()) is not None:
                    self._take(visitor, message)
        except CommError:
            self._drop(visitor)
        if not visitor.stream.is_open:
            self._drop(visitor)

    def _take(self, visitor: _Visitor, message: Message) -> None:
        if visitor.rank is None:
            self._admit(visitor, message)
        if "end" in message and self.loss is None and visitor.rank is not None:
            self.loss = loss_in(visitor.rank, message)
        visitor.has_joined = visitor.has_joined or "joined" in message

    def _admit(self, visitor: _Visitor, message: Message) -> None:
        rank, size = message.get("rank"), message.get("size")
        refusal = ""
        if size != self._appointment.size or not isinstance(rank, int) or not 0 < rank < size:
            refusal = f"it is rank {rank} of {size}, and rank 0 is of {self._appointment.size}"
        elif rank in self._others:
            refusal = f"rank {rank} has come already: a program that a rank starts is no rank"
        if refusal:
            visitor.stream.send({"refused": refusal})
            raise StrangerError(refusal)
        assert isinstance(rank, int)
        visitor.rank, visitor.host = rank, str(message.get("host", ""))
        self._strangers.remove(visitor)
        self._others[rank] = visitor

    def _drop(self, visitor: _Visitor) -> None:
        """Be done with a connection; that of a process that has not joined is a loss."""
        if visitor in self._strangers:
            self._strangers.remove(visitor)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(visitor.stream)
        if visitor.rank is not None and not visitor.has_joined and self.loss is None:
            self.loss = Loss(
                visitor.rank,
                f"rank {visitor.rank} on {_name_in(visitor.host)} has ended before all ranks had "
                "joined the job. See its output.",
            )
        visitor.stream.close()

    def _tell(self, loss: Loss) -> None:
        """Tell all others that are there still."""
        self._send(message_of(loss), but=loss.rank)
        send_rest(visitor.stream for visitor in self._others.values())

    def _send(self, message: Message, but: int = 0) -> None:
        """Send a message to all others that have not joined."""
        for rank, visitor in self._others.items():
            if visitor.stream.is_open and not visitor.has_joined and rank != but:
                visitor.stream.send(message)

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for stranger in list(self._strangers):
            self._drop(stranger)


def _name_in(host: str) -> str:
    return host.partition(" ")[0]


def _names(ranks: Iterable[int]) -> str:
    shown = [str(rank) for rank in ranks]
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ("rank " if len(shown) == 1 else "ranks ") + ", ".join(shown[:_MOST_NAMES]) + more
