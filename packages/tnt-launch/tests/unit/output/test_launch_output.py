"""What of the ranks' output is shown, held back and kept."""

import pytest

from tnt_launch.output.router import OutputRouter
from tnt_launch.output.stream import TRACEBACK_HOLD_S

T = 100.0
TRACEBACK = b"Traceback (most recent call last):\nValueError: no\n"


def went_on(rank):
    return False


@pytest.fixture
def shown():
    """A router with what it has shown, as one string of bytes."""
    router = OutputRouter(shows_all_output=False)
    parts = []
    for mixer in (router._out, router._err):
        mixer.sink.put = parts.append
    return router, lambda: b"".join(parts)


def test_stdout_of_other_ranks_is_kept_and_not_shown(shown):
    router, data = shown
    router.take(1, "stdout", b"said\n", T)
    assert data() == b""
    assert router.last_hidden_output(1) == "said\n"


def test_a_traceback_waits_and_is_left_to_the_report_if_the_rank_fails(shown):
    router, data = shown
    for rank in range(2):
        router.take(rank, "stderr", b"before\n" + TRACEBACK, T)
        router.finish_rank(rank, is_traceback_shown=False, now=T)
    assert data() == b"before\n[1] before\n"
    assert router.last_errors(1).endswith("ValueError: no\n")


def test_a_traceback_of_a_rank_that_goes_on_is_shown_after_a_while(shown):
    router, data = shown
    router.take(1, "stderr", TRACEBACK, T)
    assert router.tick(T, went_on) == T + TRACEBACK_HOLD_S
    assert data() == b""
    router.tick(T + TRACEBACK_HOLD_S, went_on)
    assert data() == b"[1] Traceback (most recent call last):\n[1] ValueError: no\n"


def test_in_a_job_that_is_ending_tracebacks_wait_for_the_end(shown):
    router, data = shown
    router.take(0, "stderr", TRACEBACK, T)
    router.hide_other_ranks(T)
    assert router.tick(T + 100 * TRACEBACK_HOLD_S, went_on) is None
    assert data() == b""
    router.finish_rank(0, is_traceback_shown=True, now=T)
    assert data() == TRACEBACK


def test_in_a_job_that_is_ending_other_ranks_are_kept_but_not_shown(shown):
    router, data = shown
    router.hide_other_ranks(T)
    router.take(1, "stderr", b"noise\n", T)
    router.take(0, "stderr", b"said\n", T)
    assert data() == b"said\n"
    assert router.last_errors(1) == "noise\n"


def test_an_unfinished_last_line_is_shown_as_a_line(shown):
    router, data = shown
    router.take(1, "stderr", b"no newline", T)
    router.finish_rank(1, is_traceback_shown=True, now=T)
    assert data() == b"[1] no newline\n"
