"""Output is written completely, without blocking, and never with one line inside another."""

import contextlib
import os
import select

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.output.sink import HOLD_S, LineMixer, Sink, is_same_file

T = 100.0


class Written:
    """Stands in for a sink and keeps what it gets."""

    def __init__(self):
        self.data = b""
        self.num_pending = 0

    def put(self, data):
        self.data += data


@pytest.fixture
def mixer():
    return LineMixer(Written())


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        with contextlib.suppress(OSError):
            os.close(end)


def test_a_line_of_another_stream_waits_for_the_end_of_the_line(mixer):
    mixer.pass_through(b"first ")
    mixer.put_line(b"[1] other\n", T)
    mixer.pass_through(b"half\nsecond")
    assert mixer.sink.data == b"first half\n[1] other\nsecond"


def test_a_line_that_waited_long_breaks_the_unfinished_one(mixer):
    mixer.pass_through(b"\r 10/100")
    mixer.put_line(b"[1] other\n", T)
    assert mixer.tick(T + HOLD_S / 2) == T + HOLD_S
    assert mixer.sink.data == b"\r 10/100"
    assert mixer.tick(T + HOLD_S) is None
    assert mixer.sink.data == b"\r 10/100\n[1] other\n"


def test_a_line_is_not_broken_while_nobody_reads(mixer):
    mixer.pass_through(b"first ")
    mixer.put_line(b"[1] other\n", T)
    mixer.sink.num_pending = 1
    mixer.tick(T + 100 * HOLD_S)
    assert mixer.sink.data == b"first "
    mixer.sink.num_pending = 0
    mixer.tick(T + 100 * HOLD_S)
    assert mixer.sink.data == b"first \n[1] other\n"


def test_a_line_is_written_at_once_between_lines(mixer):
    mixer.put_line(b"[1] a\n", T)
    mixer.pass_through(b"b\n")
    mixer.put_line(b"[1] c\n", T)
    assert mixer.sink.data == b"[1] a\nb\n[1] c\n"
    assert mixer.tick(T) is None


EVENT = st.tuples(st.booleans(), st.binary(max_size=6))


@given(st.lists(EVENT))
def test_the_passing_stream_keeps_its_bytes_and_no_line_is_cut(events):
    mixer = LineMixer(Written())
    passed, lines = b"", []
    for is_passing, data in events:
        if is_passing:
            data = data.replace(b"#", b"-")
            mixer.pass_through(data)
            passed += data
        else:
            lines.append(b"#%d\n" % len(lines))
            mixer.put_line(lines[-1], T)
    mixer.pass_through(b"\n")
    pieces = mixer.sink.data.split(b"\n")[:-1]
    assert [piece + b"\n" for piece in pieces if piece.startswith(b"#")] == lines
    assert b"".join(p + b"\n" for p in pieces if not p.startswith(b"#")) == passed + b"\n"


def test_a_full_pipe_never_blocks_and_loses_nothing(pipe):
    reader, writer = pipe
    sink = Sink(writer)
    data = b"".join(b"line %d\n" % number for number in range(50_000))
    sink.put(data)
    received = b""
    while sink.num_pending or select.select([reader], [], [], 0)[0]:
        if select.select([], [writer], [], 0)[1]:
            sink.advance()
        else:
            received += os.read(reader, 1 << 16)
        if not sink.num_pending and select.select([reader], [], [], 0)[0]:
            received += os.read(reader, 1 << 16)
    assert received == data


def test_a_reader_that_left_costs_the_output_but_no_error(pipe, caplog):
    reader, writer = pipe
    os.close(reader)
    sink = Sink(writer)
    sink.put(b"nobody listens")
    sink.advance()
    assert sink.num_pending == 0
    assert caplog.messages == []


def test_output_that_cannot_be_written_is_told_once(caplog):
    full = os.open("/dev/full", os.O_WRONLY)
    sink = Sink(full)
    for _ in range(2):
        sink.put(b"no room")
        sink.advance()
    os.close(full)
    assert sink.num_pending == 0
    [message] = caplog.messages
    assert "cannot be written, and what ranks write to it is lost" in message
    assert "No space left on device" in message


def test_two_descriptors_of_one_pipe_are_recognised(pipe):
    _, writer = pipe
    copy = os.dup(writer)
    try:
        assert is_same_file(writer, copy)
        null = os.open(os.devnull, os.O_WRONLY)
        assert not is_same_file(writer, null)
        os.close(null)
    finally:
        os.close(copy)
