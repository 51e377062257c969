"""What a rank has communicated, and how long it waited for it."""

import time
from collections.abc import Callable

import numpy as np
import pytest

import tnt_comm
from tnt_comm import Counters, FusionPlan, Gatherer, GradientReducer, TensorSpec
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]

LATE_S = 0.3  # how late a rank comes on purpose


def count_known_work() -> tuple[Counters, int]:
    """Does work of known size; returns the counts and the bytes that the rank contributed."""
    rank = tnt_comm.get_rank()
    plan = FusionPlan([TensorSpec(str(i), "float32", 10 * (i + 1)) for i in range(4)], 0)
    reducer = GradientReducer(plan)
    gatherer = Gatherer("rows")
    before = tnt_comm.counters()
    for _ in range(3):
        for i in range(4):
            reducer.start(i, np.ones(10 * (i + 1), np.float32))
        for i in range(4):
            reducer.finish(i)
    gatherer.start(np.ones((rank, 2), np.float64))
    gatherer.finish()
    tnt_comm.allreduce(np.ones(7, np.int16))
    tnt_comm.Group().start_allgather(np.ones(rank + 1, np.uint8)).wait()
    expected_bytes = 3 * 4 * (10 + 20 + 30 + 40) + rank * 2 * 8 + 7 * 2 + rank + 1
    return tnt_comm.counters() - before, expected_bytes


@pytest.mark.parametrize("size", [1, 2, 3])
def test_operations_and_bytes_are_those_that_were_asked_for(pool_of: Pools, size: int) -> None:
    for counters, expected_bytes in pool_of(size).run(count_known_work):
        assert counters.num_operations == 3 * 4 + 3
        assert counters.num_bytes == expected_bytes
        assert counters.num_waits <= counters.num_operations
        assert counters.exposed_s >= 0
        assert counters.communication_s >= 0


def wait_for_a_late_rank(does_something_else: bool) -> Counters:
    """Rank 1 comes late; rank 0 waits for it, or computes meanwhile."""
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 5)], 0))
    tnt_comm.barrier()
    before = tnt_comm.counters()
    if tnt_comm.get_rank() == 1:
        time.sleep(LATE_S)
    reducer.start(0, np.ones(5, np.float32))
    if does_something_else and tnt_comm.get_rank() == 0:
        time.sleep(3 * LATE_S)
    reducer.finish(0)
    return tnt_comm.counters() - before


def test_time_spent_waiting_is_exposed(pool_of: Pools) -> None:
    waiting, _ = pool_of(2).run(wait_for_a_late_rank, False)
    assert waiting.num_waits == 1
    assert waiting.exposed_s > LATE_S / 2
    assert waiting.communication_s > LATE_S / 2
    assert waiting.hidden_share < 0.5


def test_time_spent_computing_hides_communication(pool_of: Pools) -> None:
    computing, _ = pool_of(2).run(wait_for_a_late_rank, True)
    assert computing.num_waits == 0
    assert computing.exposed_s == 0
    assert computing.communication_s > LATE_S / 2
    assert computing.hidden_share == 1


def blocking_collective_with_a_late_rank() -> Counters:
    tnt_comm.barrier()
    before = tnt_comm.counters()
    if tnt_comm.get_rank() == 1:
        time.sleep(LATE_S)
    tnt_comm.allreduce(np.ones(5))
    return tnt_comm.counters() - before


def test_a_blocking_collective_hides_nothing(pool_of: Pools) -> None:
    waiting, _ = pool_of(2).run(blocking_collective_with_a_late_rank)
    assert waiting.exposed_s > LATE_S / 2
    assert waiting.communication_s == pytest.approx(waiting.exposed_s)
    assert waiting.hidden_share == pytest.approx(0)
