"""What ranks are going to exchange is compared, but for names and lines."""

from __future__ import annotations

import dataclasses
import json

import pytest

import tnt_comm
from tnt_keras.collectives import agreement
from tnt_keras.collectives.agreement import Agreement, PlannedCall

END = "exchange 2 (end)"
SUM = PlannedCall(END, "sum of float32 (2)", "dense/MatMul", "train.py:3")
ROWS = PlannedCall(END, "gather of string", "dense/Gather", "")


def _of_ranks(monkeypatch: pytest.MonkeyPatch, *others: list[PlannedCall]) -> None:
    """Let other ranks than this one, which is rank 0, have noted these."""
    messages = [json.dumps(list(map(dataclasses.astuple, calls))).encode() for calls in others]
    monkeypatch.setattr(agreement, "allgather", lambda name, own: [own, *messages])


def _agreement(*calls: PlannedCall) -> Agreement:
    result = Agreement("train_step 1")
    for call in calls:
        result.note(call)
    return result


def test_names_and_lines_may_differ_and_are_those_of_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _of_ranks(monkeypatch, [PlannedCall(END, SUM.what, "dense_1/MatMul", "a.py:1")])
    assert _agreement(SUM).reach() == ["dense/MatMul (train.py:3)"]


def test_a_difference_names_both_values_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM, ROWS], [SUM, SUM])
    with pytest.raises(tnt_comm.MismatchError) as caught:
        _agreement(SUM, ROWS).reach()
    assert (
        "do not exchange the same in train_step 1. As number 2 of it, rank 0 has gather of string "
        "for 'dense/Gather' in exchange 2 (end), rank 2 has sum of float32 (2) for 'dense/MatMul' "
        "(train.py:3) in exchange 2 (end)."
    ) in str(caught.value)


def test_what_only_one_rank_has_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM])
    with pytest.raises(tnt_comm.MismatchError, match=r"number 2 of it.*rank 1 has nothing more"):
        _agreement(SUM, ROWS).reach()
    _of_ranks(monkeypatch, [SUM])
    with pytest.raises(tnt_comm.MismatchError, match="rank 0 has nothing more, rank 1 has sum"):
        _agreement().reach()


def test_what_was_compared_is_counted_and_not_compared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = _agreement(SUM, SUM)
    _of_ranks(monkeypatch, [SUM, SUM])
    compared.reach()
    compared.note(ROWS)
    _of_ranks(monkeypatch, [SUM])
    with pytest.raises(tnt_comm.MismatchError, match="As number 3 of it"):
        compared.reach()


def test_the_same_values_in_other_groups_are_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM, dataclasses.replace(SUM, exchange="exchange 3 (end)")])
    with pytest.raises(tnt_comm.MismatchError, match=r"rank 1 has .* in exchange 3 \(end\)"):
        _agreement(SUM, SUM).reach()
