"""Communication happens while backpropagation computes, also with one inter-op thread."""

from __future__ import annotations

from typing import Any

import behaviours


def test_most_buckets_are_reduced_before_the_last_gradient_exists(pool_of: Any) -> None:
    results = pool_of(2).run(behaviours.overlap)
    for num_steps, num_buckets, _ in results:
        assert num_steps == 10240 // 2048
        # 12 kernels of 256 KiB, each above the fusion threshold of 32 kB.
        assert num_buckets == 12 * num_steps
    # A rank that is ahead sees few sums before its own last gradient: the other's are missing. The
    # job waits for the rank that is behind.
    assert max(result.num_hidden / result.num_buckets for result in results) > 0.5
