"""Sample numbers worked out by hand; `D` marks the duplicate row of a rank without samples."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf
from simulated_ranks import PICK, SLICE, epochs_of_rank

D = "duplicate"
EXAMPLES: list[tuple[int, int, int, bool, list[list[list[Any]]]]] = [
    (12, 6, 3, False, [[[0, 3], [6, 9]], [[1, 4], [7, 10]], [[2, 5], [8, 11]]]),
    (
        19, 8, 3, False,
        [
            [[0, 3, 6], [8, 11, 14], [16]],
            [[1, 4, 7], [9, 12, 15], [17]],
            [[2, 5], [10, 13], [18]],
        ],
    ),
    (
        19, 8, 3, True,
        [[[0, 3, 6], [8, 11, 14]], [[1, 4, 7], [9, 12, 15]], [[2, 5], [10, 13]]],
    ),
    (
        14, 6, 4, False,
        [
            [[0, 4], [6, 10], [12]],
            [[1, 5], [7, 11], [13]],
            [[2], [8], [(12, D)]],
            [[3], [9], [(12, D)]],
        ],
    ),
    (
        13, 6, 3, False,
        [
            [[0, 3], [6, 9], [12]],
            [[1, 4], [7, 10], [(12, D)]],
            [[2, 5], [8, 11], [(12, D)]],
        ],
    ),
    (
        14, 4, 4, False,
        [
            [[0], [4], [8], [12]],
            [[1], [5], [9], [13]],
            [[2], [6], [10], [(12, D)]],
            [[3], [7], [11], [(12, D)]],
        ],
    ),
    (
        10, 8, 3, False,
        [[[0, 3, 6], [8]], [[1, 4, 7], [9]], [[2, 5], [(8, D)]]],
    ),
    (
        5, 2, 3, False,
        [[[0], [2], [4]], [[1], [3], [(4, D)]], [[(0, D)], [(2, D)], [(4, D)]]],
    ),
]  # fmt: skip


@pytest.mark.parametrize("way", [PICK, SLICE], ids=["pick", "slice"])
@pytest.mark.parametrize(
    ("num_samples", "batch_size", "size", "drop", "expected"),
    EXAMPLES,
    ids=["-".join(str(one) for one in example[:4]) for example in EXAMPLES],
)
def test_ranks_see_the_samples_of_the_example(
    num_samples: int,
    batch_size: int,
    size: int,
    drop: bool,
    expected: list[list[list[Any]]],
    way: int,
) -> None:
    def make() -> tf.data.Dataset:
        return tf.data.Dataset.range(num_samples).batch(batch_size, drop_remainder=drop)

    for rank in range(size):
        (seen,) = epochs_of_rank(make, rank, size, way=way)
        got = [step.data.tolist() if step.num_local else [(int(step.data[0]), D)] for step in seen]
        assert got == expected[rank]
        starts = range(0, num_samples, batch_size)
        assert [step.num_global for step in seen] == [
            min(batch_size, num_samples - start) for start in starts
        ][: len(seen)]
