"""Ranks in different calls never take each other's messages; errors begin with the user's line."""

from __future__ import annotations

import re
from typing import Any

import calls
import pytest
from cases import cases
from rank_pools import ENVIRONMENT

from tnt_comm.testing import observe_ranks

FAR_BELOW_THE_DEADLINE_S = 60.0
"""A call that differs is noticed at once, not after the 600 s of `TNT_TIMEOUT_S`."""


def _values(preloaded: Any, function: Any, *args: Any) -> list[dict[str, Any]]:
    """What each of two ranks returned, which after such an error cannot go on together."""
    reports = observe_ranks(
        function, 2, *args, env=ENVIRONMENT, timeout_s=2 * 60.0, preloaded=preloaded
    )
    assert all(report.outcome == "returned" for report in reports), reports
    return [report.value for report in reports]


@cases(
    ("name", "of_ranks", "lines"),
    [
        (
            "evaluate at batch begin",
            ("fit > evaluate: begin", "fit: begin of training step"),
            ("evaluate at batch begin", "fit with callback"),
        )
    ],
    thorough=[
        ("predict between fits", ("predict: begin", "fit: begin"), ("predict alone", "second fit")),
        ("evaluate during fit", ("evaluate: begin", "fit: begin"), ("evaluate alone", "fit alone")),
        (
            "save before evaluate",
            ("save: begin", "evaluate: begin"),
            ("save alone", "evaluate after save"),
        ),
        (
            "callback of one rank predicts",
            ("fit > predict: begin", "fit: begin of training step"),
            ("predict at batch begin", "fit with one callback"),
        ),
        (
            "evaluate at the end",
            ("fit > evaluate: begin", "fit: end of training"),
            ("evaluate at the end", "fit that ends"),
        ),
        (
            "fit after prediction",
            ("predict > fit: begin", "predict: end of prediction steps"),
            ("fit after prediction", "predict with fit"),
        ),
    ],
)
def test_ranks_in_different_calls_are_told_both(
    name: str, of_ranks: tuple[str, str], lines: tuple[str, str], preloaded: Any
) -> None:
    for rank, result in enumerate(_values(preloaded, calls.error_of, name)):
        own_line = calls.line_of(lines[rank])
        own_call = of_ranks[rank].partition(":")[0]
        assert result["kind"] == "MismatchError", result
        assert result["text"].startswith(f"{own_line}: {own_call}: "), result
        for label, line in zip(of_ranks, lines, strict=True):
            assert label in result["text"]
            assert calls.line_of(line) in result["text"]
        assert result["seconds"] < FAR_BELOW_THE_DEADLINE_S


@pytest.mark.thorough
def test_a_callback_of_the_master_that_evaluates_ends_all_ranks(preloaded: Any) -> None:
    of_master, of_other = _values(preloaded, calls.error_of, "logger that evaluates")
    for result in (of_master, of_other):
        assert result["kind"] == "RuntimeError", result
        assert "`evaluate` needs all ranks" in result["text"], result
        assert result["seconds"] < FAR_BELOW_THE_DEADLINE_S


@pytest.mark.thorough
def test_own_collective_of_a_user_does_not_match_a_step(preloaded: Any) -> None:
    for result in _values(preloaded, calls.error_of, "own collective"):
        assert result["kind"] == "MismatchError", result
        assert "fit: end of training step" in result["text"]
        assert calls.line_of("fit with allgather") in result["text"]
        assert result["seconds"] < FAR_BELOW_THE_DEADLINE_S


def test_a_sum_that_one_rank_has_in_its_step_is_told_with_what_the_other_has(
    preloaded: Any,
) -> None:
    for result in _values(preloaded, calls.error_of, "sum on master in a step"):
        assert result["kind"] == "ValueError", result
        assert result["text"].startswith(f"{calls.line_of('fit with a sum')}: fit: "), result
        assert "`train_step` is not the same on all ranks: rank 0 has" in result["text"]
        assert result["seconds"] < FAR_BELOW_THE_DEADLINE_S


def test_an_error_of_a_callback_begins_on_other_ranks_with_the_line_of_the_user(
    preloaded: Any,
) -> None:
    failing, other = _values(preloaded, calls.error_of, "callback of one rank raises")
    assert (failing["kind"], failing["text"]) == ("OSError", "no space")
    line = calls.line_of("fit that fails")
    assert other["kind"] == "RuntimeError"
    assert other["text"].startswith(f"{line}: fit: Rank 1: a callback raised an error"), other
    assert other["text"].endswith("rank 0: OSError: no space [other-rank-failed]")


def test_cause_is_the_last_line_and_the_traceback_that_of_the_user(
    preloaded: Any,
) -> None:
    remaining, leaving = _values(preloaded, calls.lost_in_step)
    last_line = remaining["traceback"].splitlines()[-1]
    begin = f"{calls.line_of('fit with disk')}: fit: rank 0: "
    assert last_line.startswith(f"tnt_comm.errors.PeerLostError: {begin}"), remaining
    assert "rank 1" in last_line
    assert "Detected at node" not in remaining["traceback"]
    files = re.findall(r'File ".*/(\w+)/\w+/\w+\.py"', remaining["traceback"])
    assert set(files) <= {"ranks", "tnt_keras"}, remaining["traceback"]
    assert remaining["seconds"] < FAR_BELOW_THE_DEADLINE_S
    assert "OSError: disk" in leaving["text"]  # the user's own error is left as it is


def test_errors_of_own_code_are_left_as_they_are(pool_of: Any) -> None:
    assert pool_of(2).run(calls.error_in_own_callback) == ["'mine'"] * 2
    for result in pool_of(2).run(calls.error_in_own_step):
        assert result["kind"] == "InvalidArgumentError"
        assert "mine" in result["text"]


def test_ranks_that_predict_apart_need_not_take_the_same_steps(pool_of: Any) -> None:
    assert pool_of(2).run(calls.each_with_its_own_samples) == [(5, 1), (15, 1)]


@cases("in_a_list", [False], thorough=[True])
def test_one_rank_that_stops_an_evaluation_stops_all_at_that_step(
    in_a_list: bool, pool_of: Any
) -> None:
    assert pool_of(2).run(calls.stopped_evaluation, in_a_list) == [2, 2]
