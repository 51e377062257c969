"""What stands before the lines of ranks."""

import os
import pty

import pytest

from tnt_launch.numbers import format_ranges
from tnt_launch.output.router import Labels, is_coloured

ONE = dict.fromkeys(range(9), "alpha")
TWO = {rank: "alpha" if rank < 4 else "beta" for rank in range(9)}


@pytest.mark.parametrize(
    ("hosts", "ranks", "label"),
    [
        (ONE, [3], b"[3] "),
        (ONE, [1, 2, 5], b"[1,2,5] "),
        (ONE, [1, 2, 3, 5, 7, 8], b"[1-3,5,7-8] "),
        (TWO, [3], b"[3@alpha] "),
        (TWO, [4, 5, 6, 7], b"[4-7@beta] "),
        (TWO, [3, 4], b"[3,4] "),
        ({}, [3], b"[3] "),
    ],
)
def test_labels_name_ranks_and_on_several_hosts_the_host(hosts, ranks, label):
    assert Labels(hosts).of(ranks) == label


def test_on_a_terminal_each_rank_has_a_colour():
    labels = Labels(ONE, is_coloured=True)
    assert labels.of([1]) == b"\x1b[33m[1]\x1b[0m "
    assert labels.of([1])[:5] != labels.of([2])[:5]
    assert labels.of([1, 2]) == b"[1,2] "


def test_ranges_of_one_and_two():
    assert format_ranges([0, 1, 3]) == "0-1,3"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colours_are_for_terminals_whose_users_do_not_refuse_them(environment, expected):
    main, terminal = pty.openpty()
    reader, writer = os.pipe()
    try:
        assert is_coloured(terminal, environment) == expected
        assert not is_coloured(writer, environment)
    finally:
        for fd in (main, terminal, reader, writer):
            os.close(fd)
