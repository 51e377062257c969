"""Batches of many numbers of rows give the serial result, and cost few partitions."""

from __future__ import annotations

from typing import Any

import many_numbers_of_rows
import numpy as np
import pytest


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "function",
    [
        many_numbers_of_rows.own_loop,
        many_numbers_of_rows.fit,
        pytest.param(many_numbers_of_rows.train_on_batch, marks=pytest.mark.thorough),
        pytest.param(
            many_numbers_of_rows.own_loop_that_reads_numbers_of_rows, marks=pytest.mark.thorough
        ),
    ],
    ids=lambda function: function.__name__,
)
def test_numbers_of_rows_beyond_the_second_share_a_partition(
    function: Any, size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(function, False)
    for result in pool_of(size).run(function, True):
        print(result["built"])
        for name in expected["logs"]:
            np.testing.assert_allclose(
                result["logs"][name], expected["logs"][name], rtol=2e-5, atol=1e-5
            )
        for actual, wanted in zip(result["weights"], expected["weights"], strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=2e-5)
