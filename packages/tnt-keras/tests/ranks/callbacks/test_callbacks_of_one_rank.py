"""A callback of one rank that raises, stops or sets weights never makes the others wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import callbacks_of_one_rank
import pytest
from callbacks_of_one_rank import FIT, PREDICT
from cases import cases
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

AT_ENDS_OF_BATCHES = ("on_train_batch_end", "on_test_batch_end", "on_predict_batch_end")
AT_ENDS = (*AT_ENDS_OF_BATCHES, "on_epoch_end")


@cases(
    ("size", "on_one_list_only", "methods"),
    [pytest.param(2, True, AT_ENDS_OF_BATCHES, id="2-True-ends of batches")],
    thorough=[
        pytest.param(2, True, FIT + PREDICT, id="2-True-all"),
        pytest.param(3, False, FIT + PREDICT, id="3-False-all"),
    ],
)
def test_error_of_a_callback_is_known_to_all_ranks_at_once(
    size: int, on_one_list_only: bool, methods: Sequence[str], pool_of: Any
) -> None:
    of_ranks = pool_of(size).run(callbacks_of_one_rank.errors_of_raising, on_one_list_only, methods)
    for rank, errors in enumerate(of_ranks):
        assert len(errors) == len(methods), errors
        for method, error in zip(methods, errors, strict=True):
            if rank == 1:
                assert error == f"{method}: KeyError: 'mine'"
            else:
                assert error.startswith(f"{method}: RuntimeError: "), error
                assert "rank 1: KeyError: 'mine'" in error


@cases(
    ("size", "methods"),
    [pytest.param(2, AT_ENDS, id="2-ends")],
    thorough=[pytest.param(size, FIT + PREDICT, id=f"{size}-all") for size in (2, 3)],
)
def test_all_ranks_stop_where_a_serial_run_with_that_callback_stops(
    size: int, methods: Sequence[str], pool_of: Any
) -> None:
    [expected] = pool_of(1).run(callbacks_of_one_rank.calls_until_stop, False, methods)
    for called in pool_of(size).run(callbacks_of_one_rank.calls_until_stop, True, methods):
        assert called == expected


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
def test_weights_that_a_callback_of_one_rank_sets_are_named(
    size: int, pool_of: Any, preloaded: Any
) -> None:
    for errors in pool_of(size).run(callbacks_of_one_rank.errors_of_setting_weights):
        assert len(errors) == len(FIT + PREDICT), errors
        for method, error in zip(FIT + PREDICT, errors, strict=True):
            assert error.startswith(f"{method}: RuntimeError: "), error
            assert "bias" in error
            assert "ranks [1] differ from rank 0" in error
    # Not in a pool, whose check of steps finds the other weights before the callback is told.
    settings = {"env": ENVIRONMENT, "preloaded": preloaded}
    for error in run_ranks(callbacks_of_one_rank.error_of_borrowed_weights, 2, **settings):
        assert error.startswith("RuntimeError"), error
        assert "ranks [1] differ from rank 0" in error


@cases("form", ["CallbackList with History"], thorough=("list with History", "CallbackList"))
def test_callback_list_gets_what_a_list_gets(form: str, pool_of: Any) -> None:
    [expected, _] = pool_of(2).run(callbacks_of_one_rank.with_callback_list, "list")
    assert expected["called"].count("on_epoch_end") == 2
    for result in pool_of(2).run(callbacks_of_one_rank.with_callback_list, form):
        assert result == expected


def test_own_class_of_callback_list_is_refused(pool_of: Any) -> None:
    for error in pool_of(2).run(callbacks_of_one_rank.own_class_of_list):
        assert "Own" in error
        assert "pass a list" in error
