"""Ranks compute right results in memory that earlier results have left."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tree_reference import assert_same_bits, tree, values

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, TensorSpec
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]
Array = np.ndarray[Any, Any]


def check_results_in_memory_of_others() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    random = np.random.default_rng(5)  # the same on all ranks
    held: list[tuple[Array, Array]] = []
    for call in range(60):
        count = int(random.choice([0, 1, 16_383, 16_384, 20_000, 300_007]))
        inputs = [values("float32", count, r, call) for r in range(size)]
        form = int(random.integers(4))
        if form == 0:
            results = [(tnt_comm.allreduce(inputs[rank]), tree(inputs, "sum"))]
        elif form == 1:
            results = [(tnt_comm.broadcast(inputs[rank], call % size), inputs[call % size])]
        elif form == 2:
            results = list(zip(tnt_comm.allgather(inputs[rank]), inputs, strict=True))
        else:
            expected = np.array_split(tree(inputs, "max"), size)[rank]
            results = [(tnt_comm.reduce_scatter(inputs[rank], "max"), expected)]
        for result, expected in results:
            assert_same_bits(result, expected)
        held += results
        for _ in range(int(random.integers(4))):
            if held:
                held.pop(int(random.integers(len(held))))
        for result, expected in held:
            assert_same_bits(result, expected)


def addresses_of_results_in_turn() -> list[int]:
    own = np.ones(100_000, np.float32)
    addresses = []
    total = None
    for _ in range(20):
        total = tnt_comm.allreduce(own)
        addresses.append(total.ctypes.data)
    return addresses


def check_copied_sums_of_a_reducer() -> None:
    size = tnt_comm.get_size()
    reducer = GradientReducer(FusionPlan([TensorSpec("kernel", "float32", 50_000)], 0))
    held = []
    for step in range(8):
        reducer.start(0, np.full(50_000, step, np.float32))
        held.append((reducer.finish(0), step * size))
        held = held[-3:]
        assert all((total == expected).all() for total, expected in held)


@pytest.mark.parametrize("size", [2, 3])
def test_results_are_right_and_stay(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_results_in_memory_of_others)


def test_results_that_replace_each_other_take_two_blocks(pool_of: Pools) -> None:
    for addresses in pool_of(2).run(addresses_of_results_in_turn):
        assert len(set(addresses)) == 2


def test_sums_that_cannot_be_lent_stay_as_well(pool_of: Pools) -> None:
    pool_of(2).run(check_copied_sums_of_a_reducer)
