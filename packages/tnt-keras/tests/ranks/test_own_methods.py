"""Methods in the form that a user gave them do what they do in serial Keras."""

from __future__ import annotations

from typing import Any

import own_methods
import pytest
from test_features_equal_serial import assert_close


def assert_equal_to_serial(function: Any, size: int, pool_of: Any, *arguments: Any) -> None:
    [expected] = pool_of(1).run(function, False, *arguments)
    for result in pool_of(size).run(function, True, *arguments):
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            if name == "compiled":
                assert result[name] == value
            else:
                assert_close(result[name], value, 1e-5, name)


@pytest.mark.parametrize(
    "size", [2, *(pytest.param(size, marks=pytest.mark.thorough) for size in (1, 3))]
)
@pytest.mark.parametrize(
    "function",
    [
        own_methods.own_compile,
        pytest.param(own_methods.own_defaults, marks=pytest.mark.thorough),
        own_methods.own_calls,
    ],
    ids=lambda function: function.__name__,
)
def test_methods_take_what_the_user_says(function: Any, size: int, pool_of: Any) -> None:
    assert_equal_to_serial(function, size, pool_of)


@pytest.mark.parametrize("run_eagerly", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.thorough), 2])
def test_model_that_was_used_before_trains_on_all_ranks(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_equal_to_serial(own_methods.used_before, size, pool_of, run_eagerly)


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
    assert_equal_to_serial(own_methods.few_rows, size, pool_of, run_eagerly)
