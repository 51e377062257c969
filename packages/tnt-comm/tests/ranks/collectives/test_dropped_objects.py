"""Reducers and gatherers that nobody holds any more give their memory back."""

import gc
from collections.abc import Callable

import numpy as np
import pytest

import tnt_comm
from tnt_comm import FusionPlan, Gatherer, GradientReducer, TensorSpec
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]

NUM_ROUNDS = 10
NUM_ELEMENTS = 100_000  # of a tensor that is large enough for memory of its own


def num_mappings_of_rounds() -> list[int]:
    """Makes, uses and drops a reducer and a gatherer in each round; counts shared mappings."""
    numbers = []
    for _ in range(NUM_ROUNDS):
        specs = [TensorSpec("small", "float32", 10), TensorSpec("large", "float32", NUM_ELEMENTS)]
        reducer, gatherer = GradientReducer(FusionPlan(specs, 0)), Gatherer("rows")
        for _ in range(2):
            for i, spec in enumerate(specs):
                reducer.start(i, np.ones(spec.num_elements, np.float32))
            gatherer.start(np.ones((2, 3)))
            totals = [reducer.finish(i) for i in range(len(specs))]
            gatherer.finish()
        del reducer, gatherer
        assert all(np.all(total == tnt_comm.get_size()) for total in totals)  # ours still
        del totals
        gc.collect()
        tnt_comm.barrier()
        with open("/proc/self/maps") as file:
            numbers.append(sum("/dev/shm" in line for line in file))
    return numbers


@pytest.mark.parametrize("size", [1, 2, 3])
def test_dropped_objects_leave_no_shared_memory(pool_of: Pools, size: int) -> None:
    for numbers in pool_of(size).run(num_mappings_of_rounds):
        assert numbers[-1] <= numbers[0]


def use_handles_of_dropped_objects() -> None:
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 3)], 0))
    handle = reducer.handle
    del reducer
    gc.collect()
    with pytest.raises(ValueError, match="was closed, or never created"):
        tnt_comm._core.start_tensor(handle, 0, np.ones(3, np.float32), 1.0)


def test_handle_of_a_dropped_object_is_refused(pool_of: Pools) -> None:
    pool_of(1).run(use_handles_of_dropped_objects)
