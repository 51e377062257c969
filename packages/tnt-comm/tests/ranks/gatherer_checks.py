"""What ranks check of gatherers."""

import numpy as np
import pytest
from tree_reference import assert_same_bits, values

import tnt_comm
from tnt_comm import Gatherer


def rows_of(rank: int, step: int) -> np.ndarray:
    count = [0, 1, 50, 20_000][(rank + step) % 4]
    return values("float32", count * 3, rank, seed=step).reshape(count, 3)


def check_unequal_parts() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    gatherer = Gatherer("rows")
    for step in range(9):
        own = rows_of(rank, step)
        gatherer.start(own)
        own[...] = -1  # it was copied
        received = gatherer.finish()
        for r in range(size):
            assert_same_bits(received[r], rows_of(r, step))
    gatherer.close()
    gatherer.close()
    with pytest.raises(ValueError, match="handle"):
        gatherer.start(own)


def check_independence() -> None:
    rank = tnt_comm.get_rank()
    gatherers = [Gatherer(f"g{i}") for i in range(5)]
    for step in range(20):
        order = np.random.default_rng([rank, step]).permutation(5)
        for i in order:
            gatherers[i].start(np.full((rank, 2), 10 * i + step))
        tnt_comm.barrier()
        for i in order[::-1]:
            for r, block in enumerate(gatherers[i].finish()):
                assert block.tolist() == [[10 * i + step] * 2] * r


def check_wrong_order_of_calls() -> None:
    gatherer = Gatherer("g")
    with pytest.raises(ValueError, match="without a start"):
        gatherer.finish()
    gatherer.start(np.zeros(2))
    with pytest.raises(ValueError, match="not finished"):
        gatherer.start(np.zeros(2))
    assert len(gatherer.finish()) == tnt_comm.get_size()
    with pytest.raises(ValueError, match="scalar"):
        gatherer.start(np.float32(1))
