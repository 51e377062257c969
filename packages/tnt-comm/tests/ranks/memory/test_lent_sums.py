"""Sums that are handed out where they were formed stay as they are while anybody holds them."""

import gc
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, TensorSpec
from tnt_comm.testing import RankPool

Pools = Callable[[int], RankPool]

LARGE = 50_000
SMALL = 100


def make_reducer(threshold_bytes: int = 0, dtype: str = "float32") -> GradientReducer:
    counts = (LARGE, SMALL, 2 * LARGE)
    specs = [TensorSpec(f"v{i}", dtype, n) for i, n in enumerate(counts)]
    return GradientReducer(FusionPlan(specs, threshold_bytes))


def is_lent(array: np.ndarray) -> bool:
    """The base of a lent array is what gives its memory back to the reducer."""
    return '"view"' in repr(array.base)


def start_all(reducer: GradientReducer, value: float) -> None:
    for i, spec in enumerate(reducer.plan.tensors):
        reducer.start(i, np.full(spec.num_elements, value, str(spec.dtype)))


def check_large_sums_are_lent_and_small_ones_copied() -> None:
    reducer, size = make_reducer(), tnt_comm.get_size()
    for step in range(5):
        start_all(reducer, step)
        sums = [reducer.finish(i) for i in range(3)]
        assert [is_lent(total) for total in sums] == [True, False, True]
        for total in sums:
            assert (total == step * size).all()
            assert total.ctypes.data % (64 if is_lent(total) else 1) == 0
            assert total.flags.writeable
        del sums, total


def check_held_sums_stay_and_later_ones_are_copied() -> None:
    reducer, size = make_reducer(), tnt_comm.get_size()
    start_all(reducer, 1)
    held = [reducer.finish(i) for i in range(3)]
    for step in range(2, 9):
        start_all(reducer, step)
        later = [reducer.finish(i) for i in range(3)]
        assert not any(is_lent(total) for total in later)
        assert all((total == step * size).all() for total in later)
        assert all((total == size).all() for total in held)
    del held
    gc.collect()
    start_all(reducer, 1)
    assert is_lent(reducer.finish(0))


def check_ranks_may_hold_different_sums() -> None:
    """One rank holds on to its results, the other one does not: their windows differ."""
    reducer, rank, size = make_reducer(1 << 30), tnt_comm.get_rank(), tnt_comm.get_size()
    held: list[tuple[np.ndarray, float]] = []
    for step in range(30):
        start_all(reducer, step)
        for i in range(3):
            total = reducer.finish(i)
            assert (total == step * size).all()
            if step % (3 + rank) == 0:
                held.append((total, step * size))
        assert all((total == value).all() for total, value in held)
        if step % (4 + rank) == 0:
            held.clear()


def check_the_borrower_may_write() -> None:
    reducer, size = make_reducer(), tnt_comm.get_size()
    start_all(reducer, 1)
    own = reducer.finish(0)
    own *= -1.0
    reducer.finish(1), reducer.finish(2)
    start_all(reducer, 2)
    assert (reducer.finish(0) == 2 * size).all()
    assert (own == -size).all()
    reducer.finish(1), reducer.finish(2)
    reducer.start(0, own)  # a lent array is as good an input as any
    assert (reducer.finish(0) == -size * size).all()


def check_leases_outlive_the_reducer() -> None:
    reducer, size = make_reducer(), tnt_comm.get_size()
    start_all(reducer, 3)
    totals = [reducer.finish(i) for i in range(3)]
    reducer.close()
    del reducer
    gc.collect()
    assert all((total == 3 * size).all() for total in totals)
    other = threading.Thread(target=totals.clear)
    other.start()
    other.join()


def check_any_pattern_of_holding(seed: int) -> None:
    """The ranks draw different patterns; sums are the same."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    reducer = make_reducer(threshold_bytes=[0, 1 << 30][seed % 2])

    random = np.random.default_rng([seed, rank])
    held: list[tuple[np.ndarray, float]] = []
    for step in range(12):
        start_all(reducer, step + 1)
        for i in random.permutation(3):
            out = None
            if random.random() < 0.3:
                out = np.empty(reducer.plan.tensors[i].num_elements, np.float32)
            held.append((reducer.finish(int(i), out), (step + 1) * size))
        held = [entry for entry in held if random.random() < 0.5]
        for array, value in held:
            assert (array == value).all()
    reducer.close()


def test_large_sums_are_lent_and_small_ones_copied(pool_of: Pools) -> None:
    pool_of(2).run(check_large_sums_are_lent_and_small_ones_copied)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_held_sums_stay_as_they_are_over_later_steps(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_held_sums_stay_and_later_ones_are_copied)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_ranks_may_hold_different_sums(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_ranks_may_hold_different_sums)


@pytest.mark.parametrize("size", [1, 2])
def test_the_borrower_may_write_and_pass_it_on(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_the_borrower_may_write)


@pytest.mark.parametrize("size", [1, 2])
def test_lent_sums_outlive_the_reducer(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_leases_outlive_the_reducer)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_pattern_of_holding_gives_the_same_sums(pool_of: Pools, seed: int) -> None:
    pool_of(2).run(check_any_pattern_of_holding, seed)
