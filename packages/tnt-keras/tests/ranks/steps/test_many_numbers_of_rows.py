"""Batches of many numbers of rows give the serial result, and cost few partitions."""

from __future__ import annotations

from typing import Any

import many_numbers_of_rows
import numpy as np
from cases import cases

NUMBERS = many_numbers_of_rows.NUMBERS
# Two numbers are known to functions, then comes one for any number.
NUM_PARTITIONS = 3


@cases("size", [2], thorough=[3])
@cases(
    ("function", "num_partitions"),
    [(many_numbers_of_rows.fit, NUM_PARTITIONS + 3)],
    thorough=[
        (many_numbers_of_rows.own_loop, NUM_PARTITIONS),  # also in test_many_lengths
        (many_numbers_of_rows.train_on_batch, NUM_PARTITIONS + 1),
        (many_numbers_of_rows.own_loop_that_reads_numbers_of_rows, len(NUMBERS)),
        (many_numbers_of_rows.own_loop_that_is_built_for_each_number, len(NUMBERS)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_numbers_of_rows_beyond_the_second_share_a_partition(
    function: Any, num_partitions: int, size: int, pool_of: Any
) -> None:
    num_smaller = 0 if num_partitions == len(NUMBERS) else sum(n < size for n in NUMBERS)
    [expected] = pool_of(1).run(function, False)
    for result in pool_of(size).run(function, True):
        assert result["built"] == num_partitions + num_smaller
        for name in expected["logs"]:
            np.testing.assert_allclose(
                result["logs"][name], expected["logs"][name], rtol=2e-5, atol=1e-5
            )
        for actual, wanted in zip(result["weights"], expected["weights"], strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=2e-5)
