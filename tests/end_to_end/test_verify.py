"""`tarantella verify` on real trainings: right ones, and ones whose bits depend on the ranks."""

import pytest
from run_command import run_command

SCRIPT = "tests/end_to_end/scripts/train_for_verify.py"
COMMAND = "tarantella verify --no-gpu {options} -- {script} {habit}"


def verify(options, habit):
    """What the command says, and its exit status."""
    finished = run_command(COMMAND.format(options=options, script=SCRIPT, habit=f"'{habit}'"))
    return finished.status, finished.output + finished.messages


def test_a_right_script_has_the_same_bits_on_one_two_and_four_ranks():
    status, text = verify("-n 1,2,4 --lanes 4", "none")
    assert status == 0, text


@pytest.mark.parametrize(
    ("habit", "cause"),
    [
        ("another order", "kernel"),
        ("seed by rank", "train_for_verify.py:25 calls get_rank()"),
        ("learning rate by ranks", "train_for_verify.py:30 calls get_size()"),
        ("random map", "train_for_verify.py:29"),
    ],
)
def test_what_depends_on_the_ranks_is_named(habit, cause):
    status, text = verify("-n 1,2 --lanes 4", habit)
    assert status == 1, text
    assert cause in text, text


def test_without_lanes_two_ranks_are_within_rounding_of_plain_keras():
    status, text = verify("-n 2 --within serial", "none")
    assert status == 0, text
