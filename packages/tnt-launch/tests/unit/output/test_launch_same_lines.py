"""Equal lines of many ranks are shown once; nothing is lost, and nothing changes its order."""

from hypothesis import given
from hypothesis import strategies as st

from tnt_launch.output.router import MAX_PENDING, WINDOW_S, OutputRouter, SameLines, SharedLine

T = 100.0


def test_a_line_that_all_have_written_waits_no_longer():
    same = SameLines([1, 2, 3])
    assert same.put(2, b"w\n", T) == []
    assert same.put(1, b"w\n", T) == []
    assert same.put(3, b"w\n", T) == [SharedLine((1, 2, 3), b"w\n")]
    assert same.tick(T + 1) == ([], None)


def test_a_line_of_the_only_other_rank_does_not_wait():
    assert SameLines([1]).put(1, b"w\n", T) == [SharedLine((1,), b"w\n")]


def test_a_line_of_some_is_shown_after_the_window_with_those_who_wrote_it():
    same = SameLines([1, 2, 3])
    same.put(1, b"w\n", T)
    same.put(3, b"w\n", T + WINDOW_S / 2)
    assert same.tick(T) == ([], T + WINDOW_S)
    assert same.tick(T + WINDOW_S)[0] == [SharedLine((1, 3), b"w\n")]
    assert same.tick(T + 10 * WINDOW_S) == ([], None)


def test_ranks_that_have_ended_are_not_waited_for():
    same = SameLines([1, 2, 3])
    same.put(1, b"a\n", T)
    same.put(1, b"b\n", T)
    same.put(2, b"a\n", T)
    assert same.forget(3) == [SharedLine((1, 2), b"a\n")]
    assert same.forget(2) == [SharedLine((1,), b"b\n")]


def test_many_lines_of_one_rank_do_not_fill_the_memory():
    same = SameLines([1, 2])
    shown = [one for n in range(MAX_PENDING + 5) for one in same.put(1, b"%d\n" % n, T)]
    assert [one.line for one in shown] == [b"%d\n" % n for n in range(5)]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.sampled_from([b"a\n", b"b\n", b"c\n"]), st.floats(0, 0.3))
    )
)
def test_each_rank_is_shown_all_its_lines_in_their_order(written):
    same, now, shown = SameLines([1, 2, 3, 4]), T, []
    for rank, line, wait_s in written:
        now += wait_s
        shown += same.tick(now)[0] + same.put(rank, line, now)
    shown += same.release()
    for rank in range(1, 5):
        own = [line for writer, line, _ in written if writer == rank]
        assert [one.line for one in shown if rank in one.ranks] == own


def test_the_router_counts_ranks_once_for_the_lines_of_a_block():
    router, parts = OutputRouter(False, hosts=dict.fromkeys(range(6), "alpha")), []
    router._err.sink.put = parts.append
    for rank in range(1, 6):
        router.take(rank, "stderr", b"WARNING: one\n  more\nown %d\n" % rank, T)
    router.release_lines()
    assert b"".join(parts).splitlines() == [
        b"[1-5] WARNING: one (5 ranks)",
        b"[1-5]   more",
        *(b"[%d] own %d" % (rank, rank) for rank in range(1, 6)),
    ]


def test_lines_that_wait_when_the_job_begins_to_end_are_shown():
    router, parts = OutputRouter(False, hosts=dict.fromkeys(range(3), "alpha")), []
    router._err.sink.put = parts.append
    router.take(1, "stderr", b"before\n", T)
    router.hide_other_ranks(T)
    assert b"".join(parts) == b"[1] before\n"
