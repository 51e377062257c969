"""Frames come whole, in order and from who they should; silence and rubbish end a channel."""

import os
import selectors
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tnt_launch.hosts.authentication import Client, Server
from tnt_launch.hosts.channel import (
    BEAT_S,
    MAX_NOISE,
    PREAMBLE,
    SILENCE_S,
    Channel,
    Frame,
    FrameAuthenticator,
    FrameError,
    FrameReader,
    encode,
)

KEY = b"k" * 32

texts = st.text(st.characters(exclude_categories=[])).map(lambda text: text[:50])
frames = st.builds(
    Frame,
    st.text(min_size=1, max_size=8),
    st.integers(0, 1 << 30),
    st.dictionaries(texts, st.one_of(texts, st.integers(), st.booleans(), st.none()), max_size=4),
    st.binary(max_size=300),
)


@given(st.lists(frames, max_size=5), st.binary(max_size=40), st.integers(1, 70), st.booleans())
def test_frames_come_whole_however_they_are_cut(sent, noise, size, is_sealed):
    assume((noise + PREAMBLE).index(PREAMBLE) == len(noise))
    authenticator = FrameAuthenticator(KEY, has_connected=True) if is_sealed else None
    data = noise + PREAMBLE + b"".join(encode(frame, authenticator) for frame in sent)
    reader = FrameReader()
    reader.authenticator = FrameAuthenticator(KEY, has_connected=False) if is_sealed else None
    came = [
        frame for begin in range(0, len(data), size) for frame in reader.feed(data[begin:][:size])
    ]
    assert came == sent
    assert reader.noise == noise


@given(st.binary(max_size=400))
def test_rubbish_gives_no_frame_or_an_error(data):
    reader = FrameReader(max_size=100)
    try:
        came = list(reader.feed(PREAMBLE + data))
    except FrameError:
        return
    assert all(isinstance(frame, Frame) for frame in came)


def test_what_never_begins_is_refused():
    with pytest.raises(FrameError, match="not from tarantella"):
        list(FrameReader().feed(b"x" * (MAX_NOISE + len(PREAMBLE) + 1)))


def test_a_frame_that_is_too_large_is_refused_before_it_has_come():
    with pytest.raises(FrameError, match="too large"):
        list(FrameReader(max_size=10).feed(PREAMBLE + encode(Frame("a", body=b"x" * 11))))


@pytest.mark.parametrize("change", ["bytes", "order", "direction", "missing"])
def test_a_sealed_frame_that_was_changed_moved_or_sent_back_is_refused(change):
    authenticator = FrameAuthenticator(KEY, has_connected=change != "direction")
    first, second = encode(Frame("a"), authenticator), encode(Frame("b"), authenticator)
    data = {
        "bytes": first.replace(b'"a"', b'"c"'),
        "order": second + first,
        "direction": first,
        "missing": second,
    }[change]
    reader = FrameReader()
    reader.authenticator = FrameAuthenticator(KEY, has_connected=False)
    with pytest.raises(FrameError, match="not from the expected sender"):
        list(reader.feed(PREAMBLE + data))


class End:
    """One end of a connection, with what has come."""

    def __init__(self, selector, read_fd, write_fd):
        self.frames, self.reasons = [], []
        self.channel = Channel(selector, read_fd, write_fd, self.frames.append, self.reasons.append)


@pytest.fixture
def selector():
    with selectors.PollSelector() as made:
        yield made


@pytest.fixture
def ends(selector):
    (here_in, there_out), (there_in, here_out) = os.pipe(), os.pipe()
    made = End(selector, here_in, here_out), End(selector, there_in, there_out)
    yield made
    for end in made:
        end.channel.close()


def serve(selector, is_done):
    end = time.monotonic() + 30
    while not is_done():
        assert time.monotonic() < end, "it did not come true in time"
        for key, _ in selector.select(0.05):
            key.data()


def test_more_than_a_pipe_holds_comes_in_order_both_ways(selector, ends):
    for end in ends:
        for number in range(40):
            end.channel.send(Frame("data", number, body=bytes([number]) * 20000))
    serve(selector, lambda: all(len(end.frames) == 40 for end in ends))
    for end in ends:
        assert [frame.node for frame in end.frames] == list(range(40))


def test_an_end_that_does_not_read_makes_the_other_one_full(selector, ends):
    ends[1].channel.set_reading(False)
    assert not ends[0].channel.is_full
    ends[0].channel.send(Frame("data", body=bytes(1 << 21)))
    assert ends[0].channel.is_full
    ends[1].channel.set_reading(True)
    serve(selector, lambda: ends[1].frames)
    assert not ends[0].channel.is_full


def test_the_end_of_one_side_is_told_once_to_the_other(selector, ends):
    ends[0].channel.send(Frame("last"))
    ends[0].channel.close()
    serve(selector, lambda: ends[1].reasons)
    assert [frame.kind for frame in ends[1].frames] == ["last"]
    assert ends[1].reasons == ["the connection has ended"]
    assert ends[0].reasons == []
    assert ends[1].channel.tick(time.monotonic()) is None


def tick(channel, seconds, now):
    """Let time pass in small steps, as a loop sees it."""
    for step in range(int(seconds / BEAT_S) + 1):
        channel.tick(now + step * BEAT_S)


def test_signs_of_life_keep_a_channel_and_silence_ends_it(selector, ends):
    now = time.monotonic()
    for second in range(int(3 * SILENCE_S)):
        for end in ends:
            end.channel._heard_at = now + second - 0.5  # what a beat in this second does
            end.channel.tick(now + second)
    assert [end.reasons for end in ends] == [[], []]
    tick(ends[0].channel, 2 * SILENCE_S, now + 3 * SILENCE_S)
    assert ends[0].reasons == [f"nothing was heard from it for {SILENCE_S:g} s"]


def test_a_beat_comes_each_second(selector, ends):
    now = time.monotonic()
    assert ends[0].channel.tick(now) is not None
    heard = ends[1].channel._heard_at
    assert ends[0].channel.tick(now + BEAT_S) == now + 2 * BEAT_S
    serve(selector, lambda: ends[1].channel._heard_at > heard)
    assert ends[1].frames == []


def test_an_end_that_was_stopped_itself_does_not_blame_the_other(ends):
    now = time.monotonic()
    ends[0].channel.tick(now)
    ends[0].channel.tick(now + 100)
    assert ends[0].reasons == []


def test_an_end_that_says_that_it_is_stopped_is_not_missed(selector, ends):
    now = time.monotonic()
    ends[0].channel.announce_stop(True)
    serve(selector, lambda: ends[1].channel._is_other_stopped)
    tick(ends[1].channel, 5 * SILENCE_S, now)
    assert ends[1].reasons == []
    ends[0].channel.announce_stop(False)
    serve(selector, lambda: not ends[1].channel._is_other_stopped)
    tick(ends[1].channel, 2 * SILENCE_S, now + 5 * SILENCE_S)
    assert len(ends[1].reasons) == 1


def shake_hands(selector, ends, secrets):
    trusted, refused = [], []
    sides = [
        kind(end.channel, secret, refused.append)
        for kind, end, secret in zip((Server, Client), ends, secrets, strict=True)
    ]
    for side, end in zip(sides, ends, strict=True):

        def take(frame, side=side, end=end):
            if side.take(frame):
                trusted.append(end)
                end.channel.hand_over(end.frames.append, end.reasons.append)

        end.channel.hand_over(take, end.reasons.append)
    serve(selector, lambda: len(trusted) == 2 or refused)
    return trusted, refused


def test_two_that_know_the_secret_trust_each_other_and_go_on(selector, ends):
    trusted, refused = shake_hands(selector, ends, [b"the same", b"the same"])
    assert (len(trusted), refused) == (2, [])
    for end in ends:
        end.channel.send(Frame("data"))
    serve(selector, lambda: all(end.frames for end in ends))


@pytest.mark.parametrize("secrets", [[b"one", b"another"], [b"", b"x"]])
def test_another_secret_is_refused(selector, ends, secrets):
    trusted, refused = shake_hands(selector, ends, secrets)
    assert trusted == []
    assert refused == ["it does not know the secret of the job"]


@pytest.mark.parametrize("kind", ["answer", "welcome", "join", "challenge"])
def test_frames_before_the_proof_get_nobody_in(ends, kind):
    refused = []
    host = Server(ends[0].channel, b"secret", refused.append)
    assert not host.take(Frame(kind, body=b"x" * 64))
    client = Client(ends[1].channel, b"secret", refused.append)
    if kind != "challenge":
        assert not client.take(Frame(kind, body=b"x" * 64))
        assert len(refused) == 2
