"""A callback of one rank that raises, stops or sets weights never makes the others wait."""

from __future__ import annotations

from typing import Any

import callbacks_of_one_rank
import pytest
from callbacks_of_one_rank import FIT, PREDICT


@pytest.mark.parametrize(
    ("size", "on_one_list_only"), [(2, True), pytest.param(3, False, marks=pytest.mark.thorough)]
)
def test_error_of_a_callback_is_known_to_all_ranks_at_once(
    size: int, on_one_list_only: bool, pool_of: Any
) -> None:
    of_ranks = pool_of(size).run(callbacks_of_one_rank.errors_of_raising, on_one_list_only)
    for rank, errors in enumerate(of_ranks):
        assert len(errors) == len(FIT + PREDICT), errors
        for method, error in zip(FIT + PREDICT, errors, strict=True):
            if rank == 1:
                assert error == f"{method}: KeyError: 'mine'"
            else:
                assert error.startswith(f"{method}: RuntimeError: "), error
                assert "rank 1: KeyError: 'mine'" in error


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_all_ranks_stop_where_a_serial_run_with_that_callback_stops(
    size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(callbacks_of_one_rank.calls_until_stop, False)
    for called in pool_of(size).run(callbacks_of_one_rank.calls_until_stop, True):
        assert called == expected


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
def test_weights_that_a_callback_of_one_rank_sets_are_named(size: int, pool_of: Any) -> None:
    for errors in pool_of(size).run(callbacks_of_one_rank.errors_of_setting_weights):
        assert len(errors) == len(FIT + PREDICT), errors
        for method, error in zip(FIT + PREDICT, errors, strict=True):
            assert error.startswith(f"{method}: RuntimeError: "), error
            assert "bias" in error
            assert "ranks [1] differ from rank 0" in error
    for error in pool_of(2).run(callbacks_of_one_rank.error_of_borrowed_weights):
        assert error.startswith("RuntimeError"), error
        assert "ranks [1] differ from rank 0" in error


def test_callback_list_gets_what_a_list_gets(pool_of: Any) -> None:
    [expected, _] = pool_of(2).run(callbacks_of_one_rank.with_callback_list, "list")
    assert expected["called"].count("on_epoch_end") == 2
    for form in ("list with History", "CallbackList", "CallbackList with History"):
        for result in pool_of(2).run(callbacks_of_one_rank.with_callback_list, form):
            assert result == expected, form


def test_own_class_of_callback_list_is_refused(pool_of: Any) -> None:
    for error in pool_of(2).run(callbacks_of_one_rank.own_class_of_list):
        assert "Own" in error
        assert "give a list" in error
