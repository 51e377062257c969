"""Text of many lengths gives the serial result, and costs few partitions."""

from __future__ import annotations

from typing import Any

import many_lengths
from cases import cases
from serial_results import assert_serial, of_all_sizes

# Full batches: of two lengths that are known, then of any length. The last one: of any length.
NUM_PARTITIONS = 3 + 1


@of_all_sizes
@cases(
    "function",
    [many_lengths.padded_batches, many_lengths.own_loop],
    thorough=[many_lengths.py_dataset, many_lengths.train_on_batch],
    ids=lambda function: function.__name__,
)
def test_lengths_beyond_the_second_share_a_partition(
    function: Any, size: int, pool_of: Any
) -> None:
    for result in assert_serial(function, pool_of, size=size, bound=2e-4, least=0.1):
        assert result["built"] == NUM_PARTITIONS


def test_ranks_that_read_other_lengths_are_told(pool_of: Any) -> None:
    for text in pool_of(2).run(many_lengths.lengths_of_this_rank):
        assert "The samples of ranks have different shapes" in text
