"""Methods in the form that a user gave them do what they do in serial Keras."""

from __future__ import annotations

from typing import Any

import own_methods
import pytest
from cases import cases
from serial_results import assert_serial, of_all_sizes


@of_all_sizes
@pytest.mark.parametrize(
    "function",
    [own_methods.own_compile, own_methods.own_calls],
    ids=lambda function: function.__name__,
)
def test_methods_take_what_the_user_says(function: Any, size: int, pool_of: Any) -> None:
    assert_serial(function, pool_of, size=size)


@cases("run_eagerly", [False], thorough=[True])
@cases("size", [2], thorough=[1])
def test_model_that_was_used_before_trains_on_all_ranks(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_serial(own_methods.used_before, pool_of, run_eagerly, size=size)


@cases(("size", "run_eagerly"), [(3, True)], thorough=[(size, False) for size in (2, 3)])
def test_batches_of_fewer_rows_than_ranks_count_as_in_serial(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_serial(own_methods.few_rows, pool_of, run_eagerly, size=size)
