"""All processes of a start meet: rank 0 listens, the others connect and say where they are.

Each gets its place in the job, and is connected until all have joined it: a process that ends or
fails before that is told to the others.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from tnt_comm.errors import CommError, CommTimeoutError, PeerLostError
from tnt_comm.start.numbering import RankPlace, number_ranks, this_host
from tnt_comm.start.stream import Message, Stream
from tnt_comm.start.trust import Greeting, Introduction, StrangerError, Trust, derived

_LOOK_S = 0.2
_PROOF_S = 10.0  # for a connection to prove that it is of this start
_LAST_WORDS_S = 2.0  # to tell the others why this process fails
_LINGER_S = 10.0  # in which others who have not come yet may hear that this process has failed
_MOST_STRANGERS = 64
_RETRY_S = (0.05, 0.4)  # between two attempts to reach rank 0: at first, and at most


class Endpoint(Protocol):
    """Where rank 0 listens."""

    def listen(self) -> socket.socket:
        """Listen there, as rank 0."""

    def connections(self) -> list[socket.socket]:
        """Return what can be connected to now, as another process."""


@dataclass(frozen=True)
class Wait:
    """How long a meeting may take, and when it is said for whom it waits.

    Attributes:
        timeout_s: Until it has failed.
        report_s: Until a warning.
        warn: Shows one.
        look: Called several times per second; raises what ends the wait.
    """

    timeout_s: float
    report_s: float
    warn: Callable[[str], None]
    look: Callable[[], None] = lambda: None


@dataclass(frozen=True)
class Appointment:
    """What a process of a start knows before it meets the others.

    Attributes:
        rank: Its number, as its starter counts.
        size: Number of processes.
        endpoint: Where rank 0 listens.
        trust: By which they know each other.
        rendezvous: Of rank 0: chooses where ranks meet over the network, given the address by which
            other hosts reach this one, or none.
    """

    rank: int
    size: int
    endpoint: Endpoint
    trust: Trust
    rendezvous: Callable[[str], str] = lambda address: ""


@dataclass(frozen=True)
class Assignment:
    """What all have agreed on.

    Attributes:
        place: Of this process in the job.
        job_id: Name of the job.
        secret: Of the job.
        rendezvous: Where rank 0 is to listen over the network; nothing if that is not needed.
    """

    place: RankPlace
    job_id: str
    secret: str
    rendezvous: str


@dataclass(frozen=True)
class Loss:
    """A process that has ended or failed before all have joined.

    Attributes:
        rank: Its number, as the starter counts.
        text: What has happened.
        is_late: Whether it has waited for too long.
        is_orderly: Whether its program is done without having joined, which is nobody's failure.
    """

    rank: int
    text: str
    is_late: bool = False
    is_orderly: bool = False

    def error(self) -> CommError:
        """Return it as an error of another process."""
        error = (CommTimeoutError if self.is_late else PeerLostError)(self.text)
        error.cause_rank = self.rank
        return error


class Meeting(Protocol):
    """A process among those that meet."""

    loss: Loss | None
    last_words: Message | None  # set by another thread: what `watch` is to tell the others at once

    def meet(self, wait: Wait) -> Assignment:
        """Wait until all have come. Collective.

        Raises:
            CommError: If a process has ended, failed, or not come in time; on all that have come.
        """

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Return when all have joined the job, or this process need not know: None; or a loss."""

    def fail(self, text: str) -> None:
        """Tell the others that this process has failed. Takes some seconds at most."""

    def close(self) -> None:
        """End all connections without a word, as a fork of a process must."""


def last_words(text: str, *, is_orderly: bool = False) -> Message:
    """Return what a process tells the others before it ends. Pure."""
    return {"end": text, "is_orderly": is_orderly}


def open_meeting(appointment: Appointment) -> Meeting:
    """Listen, as rank 0; others connect when they meet. Local."""
    return Host(appointment) if appointment.rank == 0 else Guest(appointment)


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
        clock = _Clock(wait)
        try:
            while len(self._others) < self._appointment.size - 1:
                self._serve()
                if self.loss is not None:
                    raise self.loss.error()
                clock.look(lambda: f"rank 0 has waited {clock.waited} for {self._missing()}")
        except BaseException as error:
            if self.loss is None:
                self._tell(_loss_of(0, error))
            else:
                self._tell_late_ones(self.loss)
            raise
        self._close_listener()
        return self._assign()

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Pass on who has ended or failed, until all others have joined."""
        while self.loss is None and not all(each.has_joined for each in self._others.values()):
            self._serve()
            if self.last_words is not None:
                self.loss = _loss_in(0, self.last_words)
        if self.loss is not None:
            self._tell(self.loss)
        return None if has_joined() else self.loss

    def fail(self, text: str) -> None:
        """Tell the others."""
        self._tell_late_ones(Loss(0, text))

    def _tell_late_ones(self, loss: Loss) -> None:
        """Tell the others; those that have not come yet, too, if they come soon."""
        self._tell(loss)
        end = time.monotonic() + _LINGER_S
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
        for key, _ in self._selector.select(_LOOK_S):
            if key.fileobj is self._listener:
                self._accept()
            else:
                key.data.stream.receive()
                self._look_at(key.data)
        for visitor in [*self._strangers, *self._others.values()]:
            visitor.stream.flush()
        limit = time.monotonic() - _PROOF_S
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
            self.loss = _loss_in(visitor.rank, message)
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
        for visitor in self._others.values():
            if visitor.stream.is_open and not visitor.has_joined and visitor.rank != loss.rank:
                visitor.stream.send(_message_of(loss))
        _send_rest(visitor.stream for visitor in self._others.values())

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None
        for stranger in list(self._strangers):
            self._drop(stranger)


class Guest:
    """Another process than rank 0."""

    def __init__(self, appointment: Appointment) -> None:
        self._appointment = appointment
        self._stream: Stream | None = None
        self._secret = b""
        self.loss: Loss | None = None
        self.last_words: Message | None = None

    def meet(self, wait: Wait) -> Assignment:
        """Find rank 0, and wait for a place."""
        clock = _Clock(wait)
        own = self._appointment.rank
        self._stream = self._connect(clock)
        try:
            self._stream.send(self._report())
            while (message := self._next(self._stream)) is None:
                clock.look(lambda: f"rank {own} has waited {clock.waited} for others, with rank 0")
        except BaseException as error:
            if self.loss is None:
                self.fail(_loss_of(own, error).text)
            raise
        job_id = str(message["job_id"])
        return Assignment(
            place=RankPlace(*message["place"]),
            job_id=job_id,
            secret=derived(self._secret, job_id),
            rendezvous=str(message["rendezvous"]),
        )

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Tell rank 0 when this process has joined; until then hear of those that have not."""
        assert self._stream is not None
        while not has_joined() and self.last_words is None:
            try:
                self._next(self._stream)
            except CommError:
                return None if has_joined() else self.loss
        self._stream.send(self.last_words or {"joined": True})
        _send_rest([self._stream])
        self._stream.close()
        return None

    def fail(self, text: str) -> None:
        """Tell rank 0, which tells the others."""
        with contextlib.suppress(CommError):
            if self._stream is None:
                patience = Wait(_LINGER_S, _LINGER_S, lambda _: None)
                self._stream = self._connect(_Clock(patience))
                self._stream.send(self._report())
            self._stream.send(last_words(text))
            _send_rest([self._stream])

    def close(self) -> None:
        """Close the socket."""
        if self._stream is not None:
            self._stream.close()

    def _report(self) -> Message:
        return {
            "rank": self._appointment.rank,
            "size": self._appointment.size,
            "host": this_host(),
        }

    def _connect(self, clock: _Clock) -> Stream:
        """Return a connection to rank 0, which is trusted; knocks until it is there."""
        pause, longest = _RETRY_S
        reason = ""
        while True:
            for connection in self._appointment.endpoint.connections():
                try:
                    return self._introduced(connection)
                except StrangerError as error:
                    reason = f" ({error})"
                    connection.close()
            own, where = self._appointment.rank, self._appointment.endpoint
            clock.look(lambda: f"rank {own} has waited {clock.waited} for {where}{reason}")
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _introduced(self, connection: socket.socket) -> Stream:
        trust = self._appointment.trust
        trust.check(connection)
        stream = Stream(connection)
        introduction = Introduction(stream, trust)
        end = time.monotonic() + _PROOF_S
        while not introduction.advance():
            if not stream.is_open or time.monotonic() > end:
                raise StrangerError("what listens there does not answer as a rank")
            _wait_for(stream)
        self._secret = introduction.secret
        return stream

    def _next(self, stream: Stream) -> Message | None:
        """Return a message of rank 0, after some waiting; raise what it says is lost."""
        _wait_for(stream)
        message = stream.take()
        if message is not None and "refused" in message:
            raise ValueError(f"this process cannot join: {message['refused']}.")
        if message is not None and "lost" in message:
            self.loss = Loss(
                message["lost"],
                str(message["text"]),
                bool(message["is_late"]),
                bool(message["is_orderly"]),
            )
        elif message is None and not stream.is_open:
            self.loss = Loss(
                0, "rank 0 has ended before all ranks had joined the job. See its output."
            )
        if self.loss is not None:
            raise self.loss.error()
        return message


class _Clock:
    """The time of a wait."""

    def __init__(self, wait: Wait) -> None:
        self._wait, self._begin = wait, time.monotonic()
        self._has_warned = False

    @property
    def waited(self) -> str:
        """How long, in words."""
        return f"{time.monotonic() - self._begin:.0f} s"

    def look(self, complaint: Callable[[], str]) -> None:
        """Warn once, and end a wait that is too long."""
        self._wait.look()
        waited_s = time.monotonic() - self._begin
        if waited_s > self._wait.timeout_s:
            raise CommTimeoutError(
                f"{complaint()}. Has a process ended before its first call of Tarantella? Under "
                "SLURM `srun --kill-on-bad-exit` ends all with it."
            )
        if not self._has_warned and waited_s > self._wait.report_s:
            self._has_warned = True
            self._wait.warn(complaint() + ".")


def _wait_for(stream: Stream) -> None:
    """Let a connection go on, and wait for a moment until it can."""
    with selectors.DefaultSelector() as selector:
        if stream.is_open:
            selector.register(stream, selectors.EVENT_READ)
            selector.select(_LOOK_S)
    stream.flush()
    stream.receive()


def _send_rest(streams: Iterable[Stream]) -> None:
    """Send what is to be sent still, for some seconds at most."""
    pending = list(streams)
    end = time.monotonic() + _LAST_WORDS_S
    while any(stream.has_output for stream in pending) and time.monotonic() < end:
        for stream in pending:
            stream.flush()
        time.sleep(0.01)


def _loss_of(rank: int, error: BaseException) -> Loss:
    text = f"rank {rank}: {error}" if isinstance(error, CommError) else f"rank {rank}: {error!r}"
    return Loss(rank, text, isinstance(error, CommTimeoutError))


def _message_of(loss: Loss) -> Message:
    kind = {"is_late": loss.is_late, "is_orderly": loss.is_orderly}
    return {"lost": loss.rank, "text": loss.text, **kind}


def _loss_in(rank: int, message: Message) -> Loss:
    return Loss(rank, str(message["end"]), is_orderly=bool(message["is_orderly"]))


def _name_in(host: str) -> str:
    return host.partition(" ")[0]


def _names(ranks: Iterable[int]) -> str:
    shown = [str(rank) for rank in ranks]
    more = f" and {len(shown) - 10} more" if len(shown) > 10 else ""
    return ("rank " if len(shown) == 1 else "ranks ") + ", ".join(shown[:10]) + more
