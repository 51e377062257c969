"""What processes that meet have in common: what they know, wait for, agree on, and tell of ends."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from tnt_comm.errors import CommError, CommTimeoutError, PeerLostError
from tnt_comm.start.authentication import Trust
from tnt_comm.start.numbering import RankPlace
from tnt_comm.start.signed_connection import Message, SignedConnection

LOOK_S = 0.2  # between two looks at what else there is to do
PROOF_S = 10.0  # for the other end of a connection to prove that it is of this start
LINGER_S = 10.0  # in which others who have not come yet may hear that a process has failed
_MOST_PLACES = 256  # in a message
# of a process manager, which does not say who has not come
FIRST_CALL_OF_OTHERS = "others to reach their first call of Tarantella"
_LAST_WORDS_S = 2.0  # to tell the others why a process fails


class Endpoint(Protocol):
    """Where rank 0 listens."""

    def listen(self) -> socket.socket:
        """Listen there, as rank 0."""

    def connections(self) -> list[socket.socket]:
        """Return what can be connected to now, as another process."""


@dataclass(frozen=True)
class Wait:
    """How long a rendezvous may take, and when it is said for whom it waits."""

    timeout_s: float  # until it has failed
    report_s: float  # until a warning
    warn: Callable[[str], None]  # shows one
    ended: Callable[[], CommError | None] = lambda: None  # tells of a process that will not come


@dataclass(frozen=True)
class RendezvousPlan:
    """What a process of a start knows before it meets the others."""

    rank: int  # its number, as its starter counts
    size: int  # number of processes
    endpoint: Endpoint  # where rank 0 listens
    trust: Trust  # by which they know each other
    # of rank 0: chooses where ranks meet over the network, given the address by which other hosts
    # reach this one, or none
    rendezvous: Callable[[str], str] = lambda address: ""


@dataclass(frozen=True)
class Assignment:
    """What all have agreed on."""

    place: RankPlace  # of this process in the job
    job_id: str  # name of the job
    secret: str  # of the job
    rendezvous: str  # where rank 0 is to listen over the network; nothing if that is not needed


@dataclass(frozen=True)
class Loss:
    """A process that has ended or failed before all have joined."""

    rank: int  # its number, as the starter counts
    text: str  # what has happened
    is_late: bool = False  # whether it has waited for too long
    # whether its program is done without having joined, which is nobody's failure
    is_orderly: bool = False

    def error(self) -> CommError:
        """Return it as an error of another process."""
        error = (CommTimeoutError if self.is_late else PeerLostError)(self.text)
        error.cause_rank = self.rank
        return error


class Rendezvous(Protocol):
    """A process among those that meet."""

    loss: Loss | None
    last_words: Message | None  # set by another thread: what `watch` is to tell the others at once
    # where ranks are in the user's script, by their numbers in the job, as long as they have not
    # joined; another thread notes that of this process
    places: dict[int, str]
    is_joining: bool  # set by another thread when this process comes to its first collective

    def meet(self, wait: Wait) -> Assignment:
        """Wait until all have come. Collective."""

    def watch(self, has_joined: Callable[[], bool]) -> Loss | None:
        """Return when all have joined the job, or this process need not know: None; or a loss."""

    def fail(self, text: str) -> None:
        """Tell the others that this process has failed. Takes some seconds at most."""

    def close(self) -> None:
        """End all connections without a word, as a fork of a process must."""


class Clock:
    """The time of a wait, from now on."""

    def __init__(self, wait: Wait, rank: int) -> None:
        self._wait, self._rank, self._begin = wait, rank, time.monotonic()
        self._has_warned = False

    def look(self, awaited: str) -> None:
        """Warn once of a long wait, and end one that is too long."""
        error = self._wait.ended()
        if error is not None:
            raise error
        waited_s = time.monotonic() - self._begin
        said = f"rank {self._rank} has waited {waited_s:.0f} s for {awaited}"
        if waited_s > self._wait.timeout_s:
            raise CommTimeoutError(
                f"{said}. Has a process ended before its first call of Tarantella, or does it run "
                "with different arguments? All ranks must run the same script with the same "
                "arguments. Under SLURM, `srun --kill-on-bad-exit` ends all processes when one "
                "fails."
            )
        if not self._has_warned and waited_s > self._wait.report_s:
            self._has_warned = True
            self._wait.warn(f"{said}. [stall]")


def last_words(text: str, *, is_orderly: bool = False) -> Message:
    """Return what a process tells the others before it ends. Pure."""
    return {"end": text, "is_orderly": is_orderly}


def places_in(message: Message) -> dict[int, str]:
    """Return where ranks are as a message tells, nothing if it tells of something else. Pure."""
    return {int(rank): str(place) for rank, place in message.get("places", ())}


def message_of_places(places: Mapping[int, str]) -> Message:
    """Return the message that tells where ranks are. Pure."""
    return {"places": sorted(places.items())[:_MOST_PLACES]}


def loss_of(rank: int, error: BaseException) -> Loss:
    """Return what others are told of an error that ends this process. Pure."""
    cause_rank = getattr(error, "cause_rank", None)
    if cause_rank is not None:
        return Loss(cause_rank, str(error))
    text = f"rank {rank}: {error}" if isinstance(error, CommError) else f"rank {rank}: {error!r}"
    return Loss(rank, text, isinstance(error, CommTimeoutError))


def loss_in(rank: int, message: Message) -> Loss:
    """Return what the last words of a process tell. Pure."""
    return Loss(rank, str(message["end"]), is_orderly=bool(message["is_orderly"]))


def message_of(loss: Loss) -> Message:
    """Return the message in which rank 0 passes a loss on. Pure."""
    kind = {"is_late": loss.is_late, "is_orderly": loss.is_orderly}
    return {"lost": loss.rank, "text": loss.text, **kind}


def send_rest(connections: Iterable[SignedConnection]) -> None:
    """Send what is to be sent still, for some seconds at most."""
    pending = list(connections)
    end = time.monotonic() + _LAST_WORDS_S
    while any(connection.has_output for connection in pending) and time.monotonic() < end:
        for connection in pending:
            connection.flush()
        time.sleep(0.01)
