"""What ranks are going to exchange is compared, but for names and lines."""

from __future__ import annotations

import dataclasses

import pytest

import tnt_comm
from tnt_keras.exchange import exchange_plan
from tnt_keras.exchange.exchange_plan import ExchangePlan, PlannedCall

SUM = PlannedCall("sum of float32 (2)", "dense/MatMul", "train.py:3")
ROWS = PlannedCall("gather of string", "dense/Gather", "")


def _of_ranks(monkeypatch: pytest.MonkeyPatch, *others: list[PlannedCall], number: int = 1) -> None:
    """Let other ranks than this one, which is rank 0, have added these to their last exchange."""
    exchange = f"exchange {number} (end)"
    messages = [
        [dataclasses.astuple(dataclasses.replace(call, exchange=exchange)) for call in calls]
        for calls in others
    ]
    monkeypatch.setattr(exchange_plan, "get_size", lambda: 1 + len(others))
    monkeypatch.setattr(exchange_plan, "allgather_json", lambda name, own, **_: [own, *messages])


def _plan(*calls: PlannedCall) -> ExchangePlan:
    plan = ExchangePlan("train_step 1")
    plan.add("end", calls)
    return plan


def test_names_and_lines_may_differ_and_are_those_of_the_master(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _of_ranks(monkeypatch, [PlannedCall(SUM.what, "dense_1/MatMul", "a.py:1")])
    assert _plan(SUM).agree() == ["dense/MatMul (train.py:3)"]


def test_a_difference_names_both_values_and_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM, ROWS], [SUM, SUM])
    with pytest.raises(tnt_comm.MismatchError) as caught:
        _plan(SUM, ROWS).agree()
    assert (
        "do not exchange the same values in train_step 1. As number 2, rank 0 has gather of string "
        "for 'dense/Gather' in exchange 1 (end), rank 2 has sum of float32 (2) for 'dense/MatMul' "
        "(train.py:3) in exchange 1 (end)."
    ) in str(caught.value)


def test_what_only_one_rank_has_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM])
    with pytest.raises(tnt_comm.MismatchError, match=r"number 2, .*rank 1 has nothing more"):
        _plan(SUM, ROWS).agree()
    _of_ranks(monkeypatch, [SUM])
    with pytest.raises(tnt_comm.MismatchError, match="rank 0 has nothing more, rank 1 has sum"):
        _plan().agree()


def test_what_was_compared_is_counted_and_not_compared_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = _plan(SUM, SUM)
    _of_ranks(monkeypatch, [SUM, SUM])
    compared.agree()
    compared.add("end", [ROWS])
    _of_ranks(monkeypatch, [SUM], number=2)
    with pytest.raises(tnt_comm.MismatchError, match="As number 3, rank"):
        compared.agree()


def test_the_same_values_in_other_groups_are_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    _of_ranks(monkeypatch, [SUM], number=2)
    with pytest.raises(tnt_comm.MismatchError, match=r"rank 1 has .* in exchange 2 \(end\)"):
        _plan(SUM).agree()
