"""Methods in the form that a user gave them do what they do in serial Keras."""

from __future__ import annotations

from typing import Any

import own_methods
import pytest
from serial_results import assert_serial, of_all_sizes


@of_all_sizes
@pytest.mark.parametrize(
    "function",
    [own_methods.own_compile, own_methods.own_calls],
    ids=lambda function: function.__name__,
)
def test_methods_take_what_the_user_says(function: Any, size: int, pool_of: Any) -> None:
    assert_serial(function, pool_of, size=size)


@pytest.mark.parametrize("run_eagerly", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_model_that_was_used_before_trains_on_all_ranks(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_serial(own_methods.used_before, pool_of, run_eagerly, size=size)


@pytest.mark.parametrize(
    ("size", "run_eagerly"),
    [
        *(pytest.param(size, False, marks=pytest.mark.thorough) for size in (2, 3)),
        (3, True),
    ],
)
def test_batches_of_fewer_rows_than_ranks_count_as_in_serial(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_serial(own_methods.few_rows, pool_of, run_eagerly, size=size)
