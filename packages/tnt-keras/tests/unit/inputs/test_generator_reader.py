"""Generators are read during steps, and stand after an epoch where a serial loop leaves them."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator

import pytest

from tnt_keras.inputs.python_batches import GeneratorReader, batches_of, reader_of

DEADLINE_S = 30


class Made:
    """Says which batches were made."""

    def __init__(self) -> None:
        self._events = [threading.Event() for _ in range(100)]

    def numbers(self, end: int = 100) -> Iterator[int]:
        for number in range(end):
            self._events[number].set()
            yield number

    def will_be(self, number: int) -> bool:
        return self._events[number].wait(DEADLINE_S)


def take(reader: GeneratorReader, count: int) -> list[int]:
    return [reader.next_batch() for _ in range(count)]


def test_next_batches_are_made_without_being_asked_for() -> None:
    made = Made()
    generator = made.numbers()
    reader = reader_of(generator)
    reader.begin_epoch(10)
    assert made.will_be(1)
    assert take(reader, 3) == [0, 1, 2]
    assert made.will_be(4)
    assert take(reader, 7) == [3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_batches_of_the_next_epoch_are_left_in_the_generator(steps: int) -> None:
    generator = Made().numbers()
    reader = reader_of(generator)
    for epoch in range(3):
        reader.begin_epoch(steps)
        assert take(reader, steps) == list(range(epoch * steps, (epoch + 1) * steps))
    assert next(generator) == 3 * steps


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_batches_taken_before_the_first_epoch_count_for_the_epochs(steps: int) -> None:
    generator = Made().numbers()
    reader = reader_of(generator)
    taken = take(reader, 2)
    for _ in range(3):
        reader.begin_epoch(steps)
        missing = max(0, steps - len(taken))
        taken = taken[steps - missing :]
        take(reader, missing)
    assert next(generator) == max(2, 3 * steps)


def test_nothing_is_made_ahead_before_an_epoch_begins() -> None:
    generator = Made().numbers()
    assert take(reader_of(generator), 2) == [0, 1]
    assert next(generator) == 2


def test_what_was_read_ahead_of_a_stopped_epoch_is_used_next_time() -> None:
    generator = Made().numbers()
    reader = reader_of(generator)
    reader.begin_epoch(10)
    assert take(reader, 4) == [0, 1, 2, 3]
    again = reader_of(generator)
    again.begin_use()
    assert take(again, 4) == [4, 5, 6, 7]
    assert next(generator) == 8


def test_generator_ends_where_it_ends() -> None:
    generator = Made().numbers(5)
    reader = reader_of(generator)
    reader.begin_epoch(None)
    assert list(batches_of(generator, reader)) == [0, 1, 2, 3, 4]
    assert list(batches_of(generator, reader_of(generator))) == []


def test_exception_comes_after_the_batches_before_it() -> None:
    def failing() -> Iterator[int]:
        yield 0
        raise OSError("no such file")

    generator = failing()
    reader = reader_of(generator)
    reader.begin_epoch(None)
    assert take(reader, 1) == [0]
    with pytest.raises(OSError, match="no such file"):
        take(reader, 1)


def test_generator_is_not_kept_alive() -> None:
    generator = Made().numbers()
    reader = reader_of(generator)
    reader.begin_epoch(1)
    assert take(reader, 1) == [0]
    alive = weakref.ref(generator)
    del generator, reader
    deadline = time.monotonic() + DEADLINE_S
    while alive() is not None and time.monotonic() < deadline:
        gc.collect()
    assert alive() is None
