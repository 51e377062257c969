"""The first step and the first names that differ are found."""

import pytest
from run_files import record, step

from tnt_launch.verify.comparison import first_difference, first_other_step, hash_of

STEPS = (
    step(1, {"loss": 0.5, "accuracy": 0.25}, {"kernel": "1", "bias": "1"}),
    step(2, {"loss": 0.4, "accuracy": 0.5}, {"kernel": "2"}),
    step(3, {"loss": 0.3}, kind="test_step"),
)


def with_step(number, changed):
    return record(*(changed if one["number"] == number else one for one in STEPS))


def test_equal_runs_have_no_difference_and_one_hash():
    assert first_difference(record(*STEPS), record(*STEPS, size=4)) is None
    assert hash_of(record(*STEPS)) == hash_of(record(*STEPS, size=4, lanes=8))


@pytest.mark.parametrize(
    ("number", "changed", "text"),
    [
        (1, step(1, {"loss": 0.5, "accuracy": 0.2}, {"kernel": "1", "bias": "1"}), "accuracy"),
        (2, step(2, {"loss": 0.5, "accuracy": 0.6}, {"kernel": "3"}), "loss and 2 more"),
        (2, step(2, {"loss": 0.4, "accuracy": 0.5}, {"kernel": "2", "bias": "2"}), "bias"),
        (2, step(2, {"loss": 0.4, "accuracy": 0.5}), "kernel"),  # which it leaves as it was
        (2, step(2, {"loss": 0.4}, {"kernel": "2"}), "accuracy"),
    ],
)
def test_the_first_step_and_what_differs_there_are_told(number, changed, text):
    other = with_step(number, changed)
    difference = first_difference(record(*STEPS), other)
    assert difference.text() == f"in step {number}, train_step of 'net': {text}"
    assert hash_of(other) != hash_of(record(*STEPS))
    assert first_other_step(record(*STEPS), other) is None


def test_variables_are_compared_by_what_they_are_not_by_when_they_were_written():
    again = with_step(2, step(2, {"loss": 0.4, "accuracy": 0.5}, {"kernel": "2", "bias": "1"}))
    assert first_difference(record(*STEPS), again) is None


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (STEPS[:2], "in step 3: no step, where run 1 has test_step of 'net'"),
        (
            (*STEPS[:2], step(3, {"loss": 0.3})),
            "in step 3: train_step of 'net', where run 1 has test_step of 'net'",
        ),
        ((*STEPS, step(4)), "in step 4: train_step of 'net', where run 1 has no step"),
    ],
)
def test_a_step_that_only_one_run_has_is_a_difference(steps, text):
    difference = first_difference(record(*STEPS), record(*steps))
    assert difference.text() == text
    assert first_other_step(record(*STEPS), record(*steps)) == difference
