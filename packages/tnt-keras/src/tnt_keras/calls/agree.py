"""What must be the same on all ranks: collected, and compared in one message.

Ranks compare a digest; only where that differs do they tell each other what they have. While
`compared_at_once` collects, `require_same` sends nothing: all is compared at the end of the block,
or with the first message inside of it. So a rank that goes another way than others, since it was
given other arguments, is told of the arguments.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

import tnt_comm
from tnt_keras.calls.current_call import holding
from tnt_keras.calls.errors import OtherRankError, of_all_ranks
from tnt_keras.calls.messages import allgather, before_next
from tnt_keras.calls.together import error_of, told
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size, is_master_rank, logger

_DIGEST_BYTES = hashlib.sha1(usedforsecurity=False).digest_size
_FAILED = bytes(_DIGEST_BYTES)  # in the place of a digest


def require_same(
    claim: str,
    values: Mapping[str, str | bytes] | Sequence[str],
    remedy: str,
    *,
    is_error: bool = True,
    cause: Callable[[], str] = str,
) -> None:
    """Make sure that values are the same on all ranks, one by one in their order. Collective.

    `values` are texts, or digests as bytes, by names that errors show; or texts without names.
    Ranks may have other names, and other numbers of them. A difference is a `ValueError` on all
    ranks, "Rank 1: {claim}: {name} is 2 on rank 0 and 3 on rank 1. {remedy}", or a warning
    if not `is_error`. `cause` finds a sentence for its begin, on all ranks, perhaps with messages.
    """
    group = _Group(claim, values, remedy, is_error, cause)
    collected = _collected.get()
    if collected is not None:
        collected.groups.append(group)
    elif get_size() > 1:
        _Collected("comparison", groups=[group]).compare()


def of_master(label: str, value: Any) -> Any:
    """Return the value of the master rank, any that can be pickled. Collective.

    What was collected until now is compared in the same message.
    """
    if get_size() == 1:
        return value
    collected = _collected.get() or _Collected(label)
    return pickle.loads(collected.compare(pickle.dumps(value) if is_master_rank() else b""))


@contextlib.contextmanager
def compared_at_once(label: str, *, after_building: bool = False) -> Iterator[None]:
    """Compare in one message what `require_same` is given in a with-block. Collective.

    An error that one rank raises in the block, before any message, is one of all ranks.
    `after_building`: ranks may come at very different times, as after a trace.
    """
    if get_size() == 1:
        yield
        return
    collected = _Collected(label, after_building)
    with holding(_collected, collected), holding(before_next, collected.compare_rest):
        try:
            yield
        except (tnt_comm.CommError, OtherRankError):
            raise
        except Exception as error:
            if not collected.was_sent:  # else all ranks may have raised it
                collected.tell(error)
            raise
        collected.compare_rest()


def first_difference(of_ranks: Sequence[Sequence[Any]]) -> tuple[int, list[int]] | None:
    """Return at what index lists, of any lengths, first differ from the master's, and which do."""
    for index, entries in enumerate(itertools.zip_longest(*of_ranks)):
        ranks = [rank for rank, entry in enumerate(entries) if entry != entries[MASTER_RANK]]
        if ranks:
            return index, ranks
    return None


@dataclasses.dataclass(frozen=True)
class _Group:
    """Values that are compared for one reason."""

    claim: str
    values: Mapping[str, str | bytes] | Sequence[str]
    remedy: str
    is_error: bool
    cause: Callable[[], str]

    @property
    def sent(self) -> list[Any]:
        """The claim and the values, as JSON knows them."""
        named = isinstance(self.values, Mapping)
        values = self.values.values() if isinstance(self.values, Mapping) else self.values
        texts = [each.hex() if isinstance(each, bytes) else each for each in values]
        return [self.claim, named, texts]

    def tell(self, of_ranks: Sequence[Sequence[str]]) -> None:
        """Raise, or warn, if values of ranks differ. Local."""
        difference = first_difference(of_ranks)
        if difference is None:
            return
        begin = f"Rank {get_rank()}: {self.cause()} {self.claim}".replace("  ", " ")
        text = f"{begin}: {self._shown(*difference, of_ranks)}. {self.remedy}"
        if self.is_error:
            raise of_all_ranks(ValueError(text))
        logger.warning("%s [ranks-differ]", text)

    def _shown(self, index: int, ranks: Sequence[int], of_ranks: Sequence[Sequence[str]]) -> str:
        rank = ranks[0]
        masters, other = (
            of_ranks[each][index] if index < len(of_ranks[each]) else "nothing more"
            for each in (MASTER_RANK, rank)
        )
        if not isinstance(self.values, Mapping):
            return f"rank {MASTER_RANK} has {masters}, and rank {rank} has {other}"
        names = list(self.values)
        name = names[index] if index < len(names) else f"number {index + 1}"
        if isinstance(self.values.get(name), bytes):
            return f"{name} of ranks {ranks} differ from those of rank {MASTER_RANK}"
        return f"{name} is {masters} on rank {MASTER_RANK} and {other} on rank {rank}"


@dataclasses.dataclass
class _Collected:
    """What is compared next, in messages of one label."""

    label: str
    after_building: bool = False
    groups: list[_Group] = dataclasses.field(default_factory=list)
    was_sent: bool = False

    def compare_rest(self) -> None:
        """Compare what is left; at least one message is sent. Collective unless nothing is."""
        if self.groups or not self.was_sent:
            self.compare()

    def compare(self, of_master: bytes = b"") -> bytes:
        """Compare, and return what the master rank sends with it. Collective."""
        groups, self.groups = self.groups, []
        own = json.dumps([group.sent for group in groups]).encode()
        digest = hashlib.sha1(own, usedforsecurity=False).digest()
        of_ranks = self._gather(self.label, digest + of_master)
        for rank, message in enumerate(of_ranks):
            if message.startswith(_FAILED):
                raise error_of(rank, message[_DIGEST_BYTES:], "failed")
        if len({message[:_DIGEST_BYTES] for message in of_ranks}) > 1:
            told_by_ranks = self._gather(f"{self.label}, what differs", own)
            _tell_differences(groups, [json.loads(each) for each in told_by_ranks])
        return of_ranks[MASTER_RANK][_DIGEST_BYTES:]

    def tell(self, error: Exception) -> None:
        """End the wait of other ranks by an error of this one. Collective."""
        with contextlib.suppress(tnt_comm.CommError):  # the error itself says more
            self._gather(self.label, _FAILED + told(error))

    def _gather(self, label: str, message: bytes) -> list[bytes]:
        may_be_late, self.was_sent = self.after_building and not self.was_sent, True
        with holding(before_next, None):
            return allgather(label, message, after_building=may_be_late)


_collected: ContextVar[_Collected | None] = ContextVar("tnt_collected", default=None)


def _tell_differences(groups: Sequence[_Group], of_ranks: Sequence[Sequence[Any]]) -> None:
    """Raise or warn for each group that differs between ranks, in their order."""
    for index, entries in enumerate(itertools.zip_longest(*of_ranks)):
        claims = [[None] if entry is None else entry[:2] for entry in entries]
        other = next((rank for rank, each in enumerate(claims) if each != claims[0]), None)
        if other is not None:
            raise of_all_ranks(
                ValueError(
                    f"Rank {get_rank()}: ranks compare different things: {claims[0][0]!r} on rank "
                    f"{MASTER_RANK} and {claims[other][0]!r} on rank {other}. All ranks must run "
                    "the same program with the same arguments."
                )
            )
        groups[index].tell([entry[-1] for entry in entries])
