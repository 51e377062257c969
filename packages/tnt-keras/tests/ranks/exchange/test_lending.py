"""Sums are handed to TensorFlow without a copy, and stay what they were as long as they live."""

from __future__ import annotations

from typing import Any

import lending
import numpy as np
import pytest


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_gradients_that_a_user_keeps_stay_what_they_were(pool_of: Any, run_eagerly: bool) -> None:
    results = pool_of(2).run(lending.keep_gradients, run_eagerly)
    num_variables, num_steps = 6, 2 * 6
    # Python in a graph runs once for all ranks, on the first of them.
    keeping, others = (results, []) if run_eagerly else (results[:1], results[1:])
    for result in keeping:
        assert result["unchanged"] == [True] * (num_variables * num_steps)
        for a, b in zip(result["copies"], results[0]["copies"], strict=True):
            np.testing.assert_array_equal(a, b)
    assert [result["copies"] for result in others] == [[]] * len(others)
    for step in range(1, num_steps):  # they are those of different steps
        first, later = results[0]["copies"][0], results[0]["copies"][step * num_variables]
        assert not np.array_equal(first, later)
    for a, b in zip(results[0]["weights"], results[1]["weights"], strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_large_sum_takes_the_memory_of_a_gradient_that_nobody_else_reads(pool_of: Any) -> None:
    assert pool_of(2).run(lending.sums_in_the_memory_of_gradients, False) == [[True] * 5] * 2


def test_a_gradient_that_somebody_reads_later_stays_what_it_was(pool_of: Any) -> None:
    assert pool_of(2).run(lending.sums_in_the_memory_of_gradients, True) == [[False] * 5] * 2


def test_sums_outlive_their_reducer(pool_of: Any) -> None:
    pool_of(2).run(lending.sums_that_outlive_their_reducer)
