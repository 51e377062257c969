"""Read a generator ahead while a step runs, but never further than it is needed.

A generator goes on from one epoch, or call of `fit`, to the next. What tf.data has read ahead is
lost with its iterator, and how much that is depends on chance, so ranks would get out of step. Here
it depends on nothing but the batches that were asked for: after each of them a thread reads the
next few, but none of an epoch that has not begun. So a generator stands where a serial loop would
leave it; if a callback stops an epoch, what was read ahead is kept for the next use.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Generator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

END = object()
_AHEAD = 2


class GeneratorReader:
    """Read one generator, weakly referenced, in a thread of its own for all its uses."""

    def __init__(self, generator: Generator[Any, None, None]) -> None:
        self._generator = weakref.ref(generator)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="tnt-generator")
        self._pending: deque[Future[Any]] = deque()
        self._has_epoch = False
        self._spare = 0  # batches that were taken before the first epoch began
        self._wanted: float = 0  # how many more batches the epoch needs

    def begin_use(self) -> None:
        """Stop reading ahead until an epoch begins. Local."""
        self._has_epoch, self._spare, self._wanted = False, 0, 0

    def begin_epoch(self, steps: int | None) -> None:
        """Say how many batches are needed next, None for all, and read the first ones. Local."""
        self._has_epoch = True
        used = self._spare if steps is None else min(self._spare, steps)
        self._spare -= used
        self._wanted = math.inf if steps is None else steps - used
        self._read_ahead()

    def next_batch(self) -> Any:
        """Return the next batch, or `END` after the last one. Local; not from several threads."""
        if not self._pending:
            self._read()
        if self._has_epoch:
            self._wanted -= 1
        else:
            self._spare += 1
        batch = self._pending.popleft().result()
        self._read_ahead()
        return batch

    def _read_ahead(self) -> None:
        while len(self._pending) < min(_AHEAD, self._wanted):
            self._read()

    def _read(self) -> None:
        generator = self._generator()
        assert generator is not None  # the caller of `next_batch` holds it
        self._pending.append(self._thread.submit(next, generator, END))


_READERS: weakref.WeakKeyDictionary[Generator[Any, None, None], GeneratorReader] = (
    weakref.WeakKeyDictionary()
)


def reader_of(generator: Generator[Any, None, None]) -> GeneratorReader:
    """Return the one reader of a generator, prepared for another call that uses it. Local."""
    reader = _READERS.setdefault(generator, GeneratorReader(generator))
    reader.begin_use()
    return reader


def batches_of(
    generator: Generator[Any, None, None], reader: GeneratorReader
) -> Generator[Any, None, None]:
    """Yield the batches of a generator, which lives as long as the result, read ahead. Local."""
    while (batch := reader.next_batch()) is not END:
        yield batch
