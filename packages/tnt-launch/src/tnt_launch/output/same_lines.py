"""Lines that many ranks write alike are shown once, with all their ranks."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass

WINDOW_S = 0.2
MAX_PENDING = 10_000  # lines that may wait; with more, the oldest do not wait any longer


@dataclass(frozen=True)
class SharedLine:
    """A line, and the ranks that have written it, ascending."""

    ranks: tuple[int, ...]
    line: bytes


class SameLines:
    """Hold lines for a moment, to find those that others write too."""

    # A line is given out when all ranks have written it, or when it has waited for `WINDOW_S`;
    # those of one rank in their order. The cost of a line does not depend on the number of ranks.

    def __init__(self, ranks: Collection[int]) -> None:
        self._expected = set(ranks)
        self._waiting: dict[int, deque[bytes]] = {}
        self._heads: dict[bytes, set[int]] = {}  # next lines, and whose they are
        self._arrivals: deque[tuple[float, int, int]] = deque()  # time, rank, number of the line
        self._num_arrived: dict[int, int] = {}
        self._num_given: dict[int, int] = {}

    def put(self, rank: int, line: bytes, now: float) -> list[SharedLine]:
        """Add a line and return those that wait no longer."""
        number = self._num_arrived.get(rank, 0)
        self._num_arrived[rank] = number + 1
        self._arrivals.append((now, rank, number))
        waiting = self._waiting.setdefault(rank, deque())
        waiting.append(line)
        if len(waiting) == 1:
            self._heads.setdefault(line, set()).add(rank)
        return [*self._complete(line), *self._late(now)]

    def forget(self, rank: int) -> list[SharedLine]:
        """Expect no lines of a rank any more; return those that wait no longer."""
        self._expected.discard(rank)
        return [shared for line in list(self._heads) for shared in self._complete(line)]

    def tick(self, now: float) -> tuple[list[SharedLine], float | None]:
        """Return the lines that have waited long enough, and when to call again."""
        late = list(self._late(now))
        return late, self._arrivals[0][0] + WINDOW_S if self._arrivals else None

    def release(self) -> list[SharedLine]:
        """Return all that wait."""
        return list(self._late(float("inf")))

    def _late(self, now: float) -> Iterator[SharedLine]:
        while self._arrivals:
            time_s, rank, number = self._arrivals[0]
            is_given = number < self._num_given.get(rank, 0)
            is_late = time_s + WINDOW_S <= now or len(self._arrivals) > MAX_PENDING
            if not is_given and not is_late:
                return
            self._arrivals.popleft()
            if not is_given:
                yield self._give(self._waiting[rank][0])

    def _complete(self, line: bytes) -> Iterator[SharedLine]:
        """Give out a line, and what follows it, that nobody else is expected to write."""
        while len(self._heads.get(line, ())) >= max(len(self._expected), 1):
            shared = self._give(line)
            yield shared
            following = self._waiting[shared.ranks[0]]
            if not following:
                return
            line = following[0]

    def _give(self, line: bytes) -> SharedLine:
        ranks = tuple(sorted(self._heads.pop(line)))
        for rank in ranks:
            waiting = self._waiting[rank]
            waiting.popleft()
            self._num_given[rank] = self._num_given.get(rank, 0) + 1
            if waiting:
                self._heads.setdefault(waiting[0], set()).add(rank)
        return SharedLine(ranks, line)
