"""A process that connects to rank 0 of its start."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Iterable

from tnt_comm.errors import CommError
from tnt_comm.start.authentication import AuthenticationError, ClientHandshake, derived
from tnt_comm.start.numbering import RankPlace, this_host
from tnt_comm.start.rendezvous import (
    LINGER_S,
    LOOK_S,
    PROOF_S,
    Assignment,
    Clock,
    Loss,
    RendezvousPlan,
    Wait,
    last_words,
    loss_of,
    message_of_places,
    places_in,
    send_rest,
)
from tnt_comm.start.rendezvous_server import RendezvousServer
from tnt_comm.start.signed_connection import Message, SignedConnection

_QUICK_PROOF_S = 1.0  # as PROOF_S, for a process that is to end
_RETRY_S = (0.05, 0.4)  # between two attempts to reach rank 0: at first, and at most


class RendezvousClient:
    """Another process than rank 0."""

    def __init__(self, plan: RendezvousPlan) -> None:
        self._plan = plan
        self._connection: SignedConnection | None = None
        self._secret = b""
        self._has_host_joined = False
        self._own_rank = plan.rank  # in the job
        self.loss: Loss | None = None
        self.last_words: Message | None = None
        self.places: dict[int, str] = {}
        self.is_joining = False
        self._told: Message = {}

    def meet(self, wait: Wait) -> Assignment:
        """Find rank 0, and wait for a place."""
        own = self._plan.rank
        clock = Clock(wait, own)
        try:
            self._connection = self._connect(clock)
            self._connection.send(self._report())
            while (message := self._next(self._connection)) is None:
                clock.look("others, as rank 0 does")
        except BaseException as error:
            self._tell(loss_of(own, error))
            raise
        job_id, place = str(message["job_id"]), RankPlace(*message["place"])
        self._own_rank = place.rank
        return Assignment(
            place=place,
            job_id=job_id,
            secret=derived(self._secret, job_id),
            rendezvous=str(message["rendezvous"]),
        )

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Tell rank 0 when this process has joined; until then hear of those that have not."""
        assert self._connection is not None
        while not has_joined() and self.last_words is None:
            self._tell_state(self._connection)
            try:
                self._next(self._connection)
            except CommError:
                return None if has_joined() else self.loss
            if self._has_host_joined and not self._connection.is_open:
                return None  # whoever joins now, notices by itself who has ended
        self._connection.send(self.last_words or {"joined": True})
        send_rest([self._connection])
        self._connection.close()
        return None

    def fail(self, text: str) -> None:
        """Tell rank 0, which tells the others."""
        with contextlib.suppress(CommError):
            message = last_words(text)
            if self._connection is None:
                patience = Wait(LINGER_S, LINGER_S, lambda _: None)
                self._connection = self._connect(Clock(patience, self._plan.rank))
                # In one message: this process must not count as one that has come.
                message = {**self._report(), **message}
            self._connection.send(message)
            send_rest([self._connection])

    def end(self, found: Iterable[socket.socket], text: str) -> None:
        """Tell rank 0 of an orderly end, by connections to what may be that."""
        message = {**self._report(), **last_words(text, is_orderly=True)}
        for each in found:
            with each, contextlib.suppress(CommError):
                self._connection = self._introduced(each, _QUICK_PROOF_S)
                self._connection.send(message)
                send_rest([self._connection])

    def close(self) -> None:
        """Close the socket."""
        if self._connection is not None:
            self._connection.close()

    def _tell(self, loss: Loss) -> None:
        """Tell the others what they do not know yet."""
        if loss.rank == 0 and self._connection is None:
            # It has never come, and its host is this one. The others knock there.
            with contextlib.suppress(CommError):
                RendezvousServer(self._plan).fail(loss.text, num_substitutes=1)
        elif self.loss is None and not loss.is_late:
            self.fail(loss.text)

    def _tell_state(self, connection: SignedConnection) -> None:
        """Tell rank 0 where this process is, and when it comes to its first collective."""
        places = {rank: self.places[rank] for rank in {self._own_rank} & self.places.keys()}
        state = {"joining": self.is_joining, **message_of_places(places)}
        if state != self._told:
            self._told = state
            connection.send(state)

    def _report(self) -> Message:
        return {
            "rank": self._plan.rank,
            "size": self._plan.size,
            "host": this_host(),
        }

    def _connect(self, clock: Clock) -> SignedConnection:
        """Return a connection to rank 0, which is trusted; knocks until it is there."""
        pause, longest = _RETRY_S
        reasons: dict[str, None] = {}  # in order, each once
        while True:
            for connection in self._plan.endpoint.connections():
                try:
                    return self._introduced(connection)
                except AuthenticationError as error:
                    reasons[str(error)] = None
                    connection.close()
            why = f" ({'; '.join(reasons)})" if reasons else ""
            clock.look(f"{self._plan.endpoint}{why}")
            time.sleep(pause)
            pause = min(2 * pause, longest)

    def _introduced(self, endpoint: socket.socket, proof_s: float = PROOF_S) -> SignedConnection:
        trust = self._plan.trust
        trust.check(endpoint)
        connection = SignedConnection(endpoint)
        handshake = ClientHandshake(connection, trust)
        end = time.monotonic() + proof_s
        while not handshake.advance():
            if not connection.is_open or time.monotonic() > end:
                raise AuthenticationError(
                    "the process that listens there does not answer like a rank"
                )
            _wait_for(connection)
        self._secret = handshake.secret
        return connection

    def _next(self, connection: SignedConnection) -> Message | None:
        """Return a message of rank 0, after some waiting; raise what it says is lost."""
        _wait_for(connection)
        message = connection.take()
        if message is not None and "joined" in message:
            self._has_host_joined = True
        if message is not None:
            self.places.update(places_in(message))
        if message is not None and "refused" in message:
            raise ValueError(f"this process cannot join: {message['refused']}.")
        if message is not None and "lost" in message:
            self.loss = Loss(
                message["lost"],
                str(message["text"]),
                bool(message["is_late"]),
                bool(message["is_orderly"]),
            )
        elif message is None and not connection.is_open and not self._has_host_joined:
            self.loss = Loss(
                0, "rank 0 has ended before all ranks had joined the job. See its output."
            )
        if self.loss is not None:
            raise self.loss.error()
        return message


def _wait_for(connection: SignedConnection) -> None:
    """Let a connection go on, and wait for a moment until it can."""
    with selectors.DefaultSelector() as selector:
        if connection.is_open:
            selector.register(connection, selectors.EVENT_READ)
            selector.select(LOOK_S)
    connection.flush()
    connection.receive()
