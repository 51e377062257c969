"""Streams are cut into lines, their ends kept, and tracebacks held back for a moment."""

from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.output.stream import (
    FAILED_HOLD_S,
    MAX_LINE,
    TAIL_LINES,
    TRACEBACK_HOLD_S,
    LineSplitter,
    Tail,
)
from tnt_launch.output.stream import TracebackHold as Hold

T = 100.0


def went_on():
    return False


def has_failed():
    return True


TRACEBACK = b"Traceback (most recent call last):\n"


@given(st.lists(st.text("ab\n").map(str.encode)))
def test_lines_are_the_same_however_the_bytes_arrive(parts):
    splitter = LineSplitter()
    lines = [line for part in parts for line in splitter.feed(part)] + splitter.finish()
    data = b"".join(parts)
    assert lines == [line + b"\n" for line in data.removesuffix(b"\n").split(b"\n") if data]


def test_a_stream_without_newlines_does_not_fill_the_memory():
    splitter = LineSplitter()
    assert splitter.feed(b"x" * MAX_LINE) == []
    assert splitter.feed(b"y") == [b"x" * MAX_LINE + b"y\n"]
    assert splitter.finish() == []


def test_a_tail_keeps_the_last_lines_and_the_unfinished_one():
    tail = Tail()
    for number in range(TAIL_LINES + 5):
        tail.feed(b"%d\n" % number)
    tail.feed(b"end")
    lines = tail.text().splitlines()
    assert lines == [str(number) for number in range(6, TAIL_LINES + 5)] + ["end"]


def test_what_is_no_traceback_passes_at_once():
    hold = Hold()
    assert hold.feed(b"a Traceback\nb", T) == b"a Traceback\nb"
    assert hold.tick(T, went_on) == (b"", None)


def test_a_traceback_is_held_and_then_shown_if_the_rank_goes_on():
    hold = Hold()
    assert hold.feed(b"before\n" + TRACEBACK, T) == b"before\n"
    assert hold.feed(b"more\n", T) == b""
    end = T + TRACEBACK_HOLD_S
    assert hold.tick(T, went_on) == (b"", end)
    assert hold.tick(end, went_on) == (TRACEBACK + b"more\n", None)
    assert hold.feed(b"after\n", end) == b"after\n"


def test_a_traceback_of_a_rank_that_has_told_of_a_failure_is_held_longer():
    hold = Hold()
    hold.feed(TRACEBACK, T)
    end = T + FAILED_HOLD_S
    assert hold.tick(T + TRACEBACK_HOLD_S, has_failed) == (b"", end)
    assert hold.tick(end, has_failed) == (TRACEBACK, None)


def test_a_traceback_starts_at_the_start_of_a_line_only():
    hold = Hold()
    assert hold.feed(b"x", T) == b"x"
    assert hold.feed(TRACEBACK, T) == TRACEBACK
    assert hold.feed(TRACEBACK, T) == b""
    assert hold.release() == TRACEBACK
