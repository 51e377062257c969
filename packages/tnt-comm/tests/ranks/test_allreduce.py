"""Allreduce gives the bits of the documented summation tree, for every size and dtype."""

from collections.abc import Callable

import numpy as np
import pytest
from cases import cases
from tree_reference import FLOATS, INTEGERS, assert_same_bits, ops_of, tree, values

import tnt_comm
from tnt_comm.testing import RankPool, run_ranks

Pools = Callable[[int], RankPool]


def counts_of(size: int, itemsize: int) -> list[int]:
    window = 256 * 1024 // itemsize
    one_shot = 32 * 1024 // size // itemsize
    return [0, 1, size - 1, size, size + 1, 17, 1009, one_shot, one_shot + 1, window + 13]


def check_every_dtype_and_operation() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for dtype in (*FLOATS, *INTEGERS, "bool"):
        for op in ops_of(dtype):
            inputs = [values(dtype, 1009, r) for r in range(size)]
            assert_same_bits(tnt_comm.allreduce(inputs[rank], op), tree(inputs, op))


def check_awkward_counts(dtype: str) -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for count in counts_of(size, values(dtype, 1, 0).itemsize):
        inputs = [values(dtype, count, r) for r in range(size)]
        assert_same_bits(tnt_comm.allreduce(inputs[rank]), tree(inputs, "sum"))


def check_in_place_and_shapes() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for shape in [(), (7,), (3, 5, 2), (200_003,)]:
        count = int(np.prod(shape))
        inputs = [values("float32", count, r).reshape(shape) for r in range(size)]
        expected = tree(inputs, "sum")
        own = inputs[rank].copy()
        assert tnt_comm.allreduce(own, out=own) is own
        assert_same_bits(own, expected)
        other = np.zeros(shape, np.float32)
        tnt_comm.allreduce(inputs[rank], out=other)
        assert_same_bits(other, expected)


def check_strided_input_and_overlapping_output() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    inputs = [values("float64", 600, r).reshape(20, 30) for r in range(size)]
    received = tnt_comm.allreduce(inputs[rank][::2, 1::3].T)
    assert_same_bits(received, tree([x[::2, 1::3].T.copy() for x in inputs], "sum"))
    buffer = np.concatenate([inputs[rank].ravel(), [0.0]])
    tnt_comm.allreduce(buffer[:-1], out=buffer[1:])
    assert_same_bits(buffer[1:], tree([x.ravel() for x in inputs], "sum"))


def check_nan_and_infinity() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    own = np.array([np.nan if rank == size - 1 else 1.0, np.inf, rank], np.float32)
    for op in ("sum", "min", "max"):
        received = tnt_comm.allreduce(own, op)
        assert np.isnan(received[0])
        assert received[1] == np.inf


def check_many_in_flight() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    group = tnt_comm.Group()
    counts = [1 + 977 * i for i in range(40)]
    tickets = [group.start_allreduce(values("float32", c, rank, seed=c)) for c in counts]
    for count, ticket in reversed(list(zip(counts, tickets, strict=True))):
        expected = tree([values("float32", count, r, seed=count) for r in range(size)], "sum")
        assert_same_bits(ticket.wait(), expected)
        assert ticket.is_done()
        assert ticket.wait() is ticket.wait()


@cases("size", [1, 2, 3, 4, 6, 8], thorough=(5, 7))
def test_every_dtype_and_operation_follows_the_tree(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_every_dtype_and_operation)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_awkward_counts_follow_the_tree(pool_of: Pools, size: int, dtype: str) -> None:
    pool_of(size).run(check_awkward_counts, dtype)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_in_place_and_every_shape(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_in_place_and_shapes)


def test_strided_inputs_and_overlapping_outputs_are_safe(pool_of: Pools) -> None:
    pool_of(2).run(check_strided_input_and_overlapping_output)


@pytest.mark.parametrize("size", [2, 3])
def test_nan_and_infinity_reach_all_ranks(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_nan_and_infinity)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_many_operations_in_flight(pool_of: Pools, size: int) -> None:
    pool_of(size).run(check_many_in_flight)


def test_sixteen_ranks_on_one_host() -> None:
    run_ranks(check_every_dtype_and_operation, 16, timeout_s=110, env={"TNT_TIMEOUT_S": "100"})
