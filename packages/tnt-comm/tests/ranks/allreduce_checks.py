"""What ranks check of allreduce."""

import numpy as np
from tree_reference import FLOATS, INTEGERS, assert_same_bits, ops_of, tree, values

import tnt_comm


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


def check_order_of_counts(*counts: int) -> None:
    """`counts` neighbours are combined one after the other, as TNT_SUM_TREE says."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for dtype, length in (("float32", 1009), ("float64", 17), ("float32", 200_003)):
        inputs = [values(dtype, length, r) for r in range(size)]
        expected = inputs
        for count in counts:
            branches = range(0, len(expected), count)
            expected = [tree(expected[first : first + count], "sum") for first in branches]
        received = tnt_comm.allreduce(inputs[rank])
        assert_same_bits(received, expected[0])
        assert received.tobytes() != tree(inputs, "sum").tobytes()


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
