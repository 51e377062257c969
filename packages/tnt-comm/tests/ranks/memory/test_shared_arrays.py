"""Arrays in shared memory: reduced where they are, right in every mixture, freed in any order."""

import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tree_reference import FLOATS, assert_same_bits, tree, values

import tnt_comm
from tnt_comm import CommError, Group, MismatchError
from tnt_comm.testing import Preloaded, RankPool, run_ranks

Pools = Callable[[int], RankPool]

LARGE = 100_003  # elements; too large for the path of small messages


def mapped_bytes() -> int:
    """Size of this process' mappings of shared arrays."""
    total = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "/dev/shm/tnt-" in line:
            begin, end = line.split()[0].split("-")
            total += int(end, 16) - int(begin, 16)
    return total


def check_every_dtype() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for dtype in (*FLOATS, "int32", "uint8"):
        for count in (1, size + 1, LARGE):
            inputs = [values(dtype, count, r) for r in range(size)]
            x = tnt_comm.empty(count, inputs[0].dtype)
            assert x.ctypes.data % 64 == 0
            x[:] = inputs[rank]
            assert tnt_comm.allreduce(x, out=x) is x
            assert_same_bits(x, tree(inputs, "sum"))
            y = tnt_comm.empty(count, inputs[0].dtype)
            x[:] = inputs[rank]
            tnt_comm.allreduce(x, "max", out=y)
            assert_same_bits(y, tree(inputs, "max"))
            assert_same_bits(x, inputs[rank])


def check_shapes_and_contents_are_ordinary() -> None:
    size = tnt_comm.get_size()
    for shape in (0, 7, (), (3, 5), (0, 4), [2, 3, 4]):
        x = tnt_comm.empty(shape, "int64")
        expected = np.empty(shape, "int64")
        assert (x.shape, x.dtype) == (expected.shape, expected.dtype)
        assert x.flags.writeable
        assert x.flags.c_contiguous
        x[...] = tnt_comm.get_rank()
        assert (tnt_comm.allreduce(x, out=x) == size * (size - 1) // 2).all()
    with pytest.raises(ValueError, match="must not be negative"):
        tnt_comm.empty((2, -1), "float32")
    with pytest.raises(ValueError, match="complex64"):
        tnt_comm.empty(2, "complex64")


def check_any_mixture(seed: int) -> None:
    """Per call and rank: private or shared, other blocks, other offsets, in place or not."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    common, own = np.random.default_rng(seed), np.random.default_rng([seed, rank])
    room = LARGE + 1000
    blocks = [tnt_comm.empty(room, "float32") for _ in range(3)]

    def place(count: int, may_be_private: bool) -> np.ndarray:
        if may_be_private and own.random() < 0.5:
            return np.empty(count, np.float32)
        begin = int(own.integers(0, room - count))
        return blocks[int(own.integers(3))][begin : begin + count]

    for _ in range(8):
        count = int(common.choice([5, 5000, 65_536, LARGE]))
        may_be_private = bool(common.random() < 0.5)
        inputs = [values("float32", count, r, seed=seed % 1000) for r in range(size)]
        source = place(count, may_be_private)
        source[:] = inputs[rank]
        out = source if own.random() < 0.5 else place(count, may_be_private)
        tnt_comm.allreduce(source, out=out)
        assert_same_bits(out, tree(inputs, "sum"))


def check_tickets_and_tree_of_other_calls() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    group = Group()
    arrays = [tnt_comm.empty(LARGE, "float32") for _ in range(4)]
    inputs = [values("float32", LARGE, r) for r in range(size)]
    for x in arrays:
        x[:] = inputs[rank]
    tickets = [group.start_allreduce(x, out=x) for x in arrays]
    private = group.start_allreduce(inputs[rank])
    for ticket in [*tickets, private]:
        assert_same_bits(ticket.wait(), tree(inputs, "sum"))


def check_a_smaller_group() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    if rank > 0:
        group = Group(range(1, size))
        x = tnt_comm.empty(LARGE, "float64", group)
        x[:] = rank
        group.allreduce(x, out=x)
        assert (x == size * (size - 1) // 2).all()
    y = tnt_comm.empty(LARGE, "float64")
    y[:] = rank  # the world's arrays: for the smaller group they are like any other
    if rank > 0:
        assert (group.allreduce(y) == size * (size - 1) // 2).all()
    assert (tnt_comm.allreduce(y, out=y) == size * (size - 1) // 2).all()


def check_release_in_any_order() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    gc.collect()
    tnt_comm.barrier()
    first = tnt_comm.empty(1, "int8")  # an occasion to unmap what earlier tests have dropped
    before = mapped_bytes()
    arrays = {i: tnt_comm.empty(LARGE, "float32") for i in range(4)}
    assert mapped_bytes() - before > 16 * LARGE * size
    order = np.random.default_rng(rank).permutation(4)
    for i in order:
        arrays[int(i)][:] = rank + 1
    kept = arrays[3]
    for i in order:
        # The others may have dropped this one, or still use it.
        del arrays[int(i)]
        gc.collect()
        total = tnt_comm.allreduce(kept, out=kept)
        assert (total == size * (size + 1) // 2).all()
        kept[:] = rank + 1
        tnt_comm.barrier()
    del kept, total
    gc.collect()
    tnt_comm.barrier()
    last = tnt_comm.empty(1, "int8")  # an occasion to unmap what all have dropped
    assert mapped_bytes() - before < 4 * LARGE
    del first, last


def check_one_rank_drops_while_others_use() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    x, y = tnt_comm.empty(LARGE, "float32"), tnt_comm.empty(LARGE, "float32")
    y[:] = 1
    if rank == 0:
        del x  # rank 0 goes on with y, the others use x
        gc.collect()
        x = y
    x[:] = rank
    for _ in range(3):
        tnt_comm.allreduce(x, "max", out=x)
        assert (x == size - 1).all()


def check_use_after_the_group_and_in_threads() -> None:
    rank = tnt_comm.get_rank()
    x = tnt_comm.empty(LARGE, "float32")
    view = x[10:20]
    x[:] = rank
    del x
    gc.collect()
    assert (view == rank).all()  # a view keeps the memory
    holder = [view]
    del view
    thread = threading.Thread(target=holder.clear)
    thread.start()
    thread.join()


def differ_in_size() -> str:
    with pytest.raises(MismatchError) as caught:
        tnt_comm.empty(10 + tnt_comm.get_rank(), "float32")
    return str(caught.value)


def outlive_finalize() -> float:
    x = tnt_comm.empty(LARGE, "float32")
    x[:] = 1
    tnt_comm.allreduce(x, out=x)
    tnt_comm.finalize()
    return float(x.sum())


def keep_after_an_error() -> str:
    group = Group(range(tnt_comm.get_size()))
    x = tnt_comm.empty(LARGE, "float32", group)
    x[:] = 1
    if tnt_comm.get_rank() == 0:
        with pytest.raises(CommError):
            group.allreduce(x, out=x, timeout_s=0.2)
        del x  # the other one may still be about to use this memory
        gc.collect()
        tnt_comm.barrier()
        return os.environ["TNT_JOB_ID"]
    tnt_comm.barrier()
    with pytest.raises(CommError):
        group.allreduce(x, out=x)
    assert (x == 1).all()
    return os.environ["TNT_JOB_ID"]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_dtype_follows_the_tree(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_every_dtype)


@pytest.mark.parametrize("size", [1, 2])
def test_they_are_ordinary_arrays(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_shapes_and_contents_are_ordinary)


@pytest.mark.parametrize("size", [2, 3])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_any_mixture_of_private_and_shared_arrays_is_right(
    pool_of: Pools, size: int, seed: int
) -> None:
    pool_of(size).run(check_any_mixture, seed)


def test_several_may_be_in_flight(pool_of: Pools) -> None:
    pool_of(3).run(check_tickets_and_tree_of_other_calls)


def test_arrays_belong_to_their_group(pool_of: Pools) -> None:
    pool_of(4).run(check_a_smaller_group)


@pytest.mark.parametrize("size", [2, 3])
def test_memory_is_freed_in_whatever_order_it_is_dropped(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_release_in_any_order)


@pytest.mark.parametrize("size", [2, 3])
def test_one_rank_may_drop_what_others_use(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_one_rank_drops_while_others_use)


@pytest.mark.parametrize("size", [1, 2])
def test_views_keep_the_memory_and_any_thread_may_drop_it(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_use_after_the_group_and_in_threads)


def test_different_sizes_are_named_on_all_ranks(forks: Preloaded) -> None:
    for message in run_ranks(differ_in_size, 2, preloaded=forks):
        assert "rank 0 creates an array of 40 bytes in shared memory" in message
        assert "rank 1 creates an array of 44 bytes in shared memory" in message


def test_arrays_outlive_the_job(forks: Preloaded) -> None:
    assert run_ranks(outlive_finalize, 2, preloaded=forks) == [2.0 * LARGE] * 2


def test_dropping_after_an_error_harms_nobody(forks: Preloaded) -> None:
    job, _ = run_ranks(keep_after_an_error, 2, preloaded=forks)
    assert not list(Path("/dev/shm").glob(f"tnt-{job}*"))
