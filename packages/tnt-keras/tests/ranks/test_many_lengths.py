"""Text of many lengths gives the serial result, and costs few partitions."""

from __future__ import annotations

from typing import Any

import many_lengths
import numpy as np
import pytest

# Full batches: of two lengths that are known, then of any length. The last one: of any length.
NUM_PARTITIONS = 3 + 1


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("function", "num_partitions"),
    [
        (many_lengths.padded_batches, NUM_PARTITIONS),
        pytest.param(many_lengths.py_dataset, NUM_PARTITIONS, marks=pytest.mark.thorough),
        pytest.param(many_lengths.train_on_batch, NUM_PARTITIONS, marks=pytest.mark.thorough),
        (many_lengths.own_loop, NUM_PARTITIONS),
        pytest.param(
            many_lengths.own_loop_that_reads_lengths,
            len(many_lengths.LENGTHS) + 1,
            marks=pytest.mark.thorough,
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_lengths_beyond_the_second_share_a_partition(
    function: Any, num_partitions: int, size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(function, False)
    for result in pool_of(size).run(function, True):
        assert result["built"] == num_partitions
        for name in expected["logs"]:
            np.testing.assert_allclose(
                result["logs"][name], expected["logs"][name], rtol=2e-5, atol=1e-5
            )
        for actual, wanted in zip(result["weights"], expected["weights"], strict=True):
            np.testing.assert_allclose(actual, wanted, rtol=2e-4, atol=2e-5)


def test_ranks_that_read_other_lengths_are_told(pool_of: Any) -> None:
    for text in pool_of(2).run(many_lengths.lengths_of_this_rank):
        assert "The samples of ranks have different shapes" in text
