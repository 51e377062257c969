"""What ranks check of all collectives but allreduce, and of groups."""

import time

import numpy as np
import pytest
from tree_reference import assert_same_bits, tree, values

import tnt_comm


def check_broadcast() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for root in range(size):
        for dtype, count in [("float32", 0), ("bool", 1), ("bfloat16", 1009), ("int64", 300_007)]:
            own = values(dtype, count, rank)
            expected = values(dtype, count, root)
            assert_same_bits(tnt_comm.broadcast(own, root), expected)
            assert_same_bits(own, values(dtype, count, rank))  # the input is untouched
            assert tnt_comm.broadcast(own, root, out=own) is own
            assert_same_bits(own, expected)


def check_allgather() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for base in (0, 1, 40_000):
        rows = [base * (r % 3) + r for r in range(size)]
        blocks = [values("float32", 3 * n, r).reshape(n, 3) for r, n in enumerate(rows)]
        for received, expected in zip(tnt_comm.allgather(blocks[rank]), blocks, strict=True):
            assert_same_bits(received, expected)
    assert [int(x) for x in tnt_comm.allgather(rank)] == list(range(size))
    for rows in ((0,), (0, 3), (4,)):
        for dtype in ("bool", "bfloat16", "float64"):
            shapes = [(2 * r, *rows) for r in range(size)]
            own = np.zeros(shapes[rank], np.dtype(dtype))
            everything = tnt_comm.allgather(own)
            assert [(x.shape, x.dtype) for x in everything] == [(s, own.dtype) for s in shapes]
            gathered = tnt_comm.gather(own)
            assert [x.shape for x in gathered or []] == ([] if rank else shapes)


def check_reduce_scatter() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for num_rows in (0, 1, size - 1, size, size + 1, 1009, 150_001):
        for op in ("sum", "max"):
            inputs = [values("float32", num_rows * 2, r).reshape(num_rows, 2) for r in range(size)]
            received = tnt_comm.reduce_scatter(inputs[rank], op)
            assert_same_bits(received, np.array_split(tree(inputs, op), size)[rank])


def check_alltoall_and_scatter() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for num_rows in (0, 1, size - 1, size, size + 1, 1009, 150_001):
        inputs = [values("float32", num_rows * 2, r).reshape(num_rows, 2) for r in range(size)]
        parts = [np.array_split(array, size)[rank] for array in inputs]
        assert_same_bits(tnt_comm.alltoall(inputs[rank]), np.concatenate(parts))
        for root in range(size):
            assert_same_bits(tnt_comm.scatter(inputs[rank], root), parts[root])
    ticket = tnt_comm.Group().start_alltoall(np.full((size, 1), rank, np.int8))
    assert ticket.wait().reshape(-1).tolist() == list(range(size))


def check_gather() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for root in range(size):
        for base in (0, 1, 40_000):
            rows = [base * (r % 3) + r for r in range(size)]
            blocks = [values("float32", 3 * n, r).reshape(n, 3) for r, n in enumerate(rows)]
            received = tnt_comm.gather(blocks[rank], root)
            if rank != root:
                assert received is None
                continue
            assert received is not None
            for one, expected in zip(received, blocks, strict=True):
                assert_same_bits(one, expected)


def latest_arrival_and_earliest_return() -> tuple[float, float]:
    time.sleep(0.05 * tnt_comm.get_rank())
    arrived = time.monotonic()
    tnt_comm.barrier()
    return arrived, time.monotonic()


def check_groups_of_some_ranks() -> None:
    rank = tnt_comm.get_rank()
    for _ in range(2):  # the same ranks may form several groups
        for ranks in ([0, 2], [1, 3], [0, 1, 2, 3], [1, 2, 3]):
            if rank not in ranks:
                continue
            group = tnt_comm.Group(ranks)
            assert (group.ranks, group.size) == (tuple(ranks), len(ranks))
            assert group.rank == ranks.index(rank)
            inputs = [values("float64", 501, r) for r in ranks]
            assert_same_bits(group.allreduce(inputs[group.rank]), tree(inputs, "sum"))
            assert [int(x) for x in group.allgather(rank)] == ranks
            assert int(group.broadcast(rank, root=1)) == ranks[1]
    alone = tnt_comm.Group([rank])
    assert int(alone.allreduce(rank)) == rank


def check_independent_groups_in_opposite_orders() -> None:
    first, second = tnt_comm.Group([0, 1]), tnt_comm.Group([0, 1])
    groups = [first, second] if tnt_comm.get_rank() == 0 else [second, first]
    one = np.ones(100_000, np.float32)
    for _ in range(20):
        for ticket in [group.start_allreduce(one) for group in groups]:
            assert float(ticket.wait().sum()) == 200_000


def check_usage_errors_send_nothing() -> None:
    group = tnt_comm.Group()
    one = np.ones(4, np.float32)
    with pytest.raises(ValueError, match="'mean'"):
        group.allreduce(one, "mean")
    with pytest.raises(ValueError, match="not defined for dtype bool"):
        group.allreduce(one > 0, "sum")
    with pytest.raises(ValueError, match="not defined for dtype float32"):
        group.allreduce(one, "and")
    with pytest.raises(ValueError, match="complex64"):
        group.allreduce(one.astype(np.complex64))
    with pytest.raises(ValueError, match="native byte order"):
        group.allreduce(one.astype(">f4"))
    with pytest.raises(ValueError, match="root=7"):
        group.broadcast(one, root=7)
    with pytest.raises(TypeError, match=r"`root` must be an int\. Received: '0' \(str\)"):
        group.broadcast(one, root="0")  # type: ignore[arg-type]
    assert group.broadcast(one, root=np.int64(0)).shape == one.shape
    with pytest.raises(ValueError, match="shape"):
        group.allreduce(one, out=np.ones(5, np.float32))
    with pytest.raises(ValueError, match="C-contiguous"):
        group.allreduce(one, out=np.ones(8, np.float32)[::2])
    with pytest.raises(TypeError, match="list"):
        group.allreduce(one, out=[0.0] * 4)  # type: ignore[arg-type]
    for scatter in (group.reduce_scatter, group.alltoall, group.scatter):
        with pytest.raises(ValueError, match="scalar"):
            scatter(np.float32(1))
    for with_root in (group.gather, group.scatter):
        with pytest.raises(ValueError, match="root=7"):
            with_root(one, root=7)
        with pytest.raises(TypeError, match=r"`root` must be an int\. Received: None"):
            with_root(one, root=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"`root` must be an int of 32 bits\. Received: 1099511"):
        group.broadcast(one, root=1 << 40)
    with pytest.raises(ValueError, match="timeout_s"):
        group.barrier(timeout_s=-1)
    with pytest.raises(TypeError, match=r"`timeout_s` must be a number\. Received: '5' \(str\)"):
        group.barrier(timeout_s="5")  # type: ignore[arg-type]
    for reduce in (tnt_comm.allreduce, group.allreduce, group.reduce_scatter):
        with pytest.raises(TypeError, match=r"`op` must be a str\. Received: None"):
            reduce(one, None)  # type: ignore[arg-type]
    for call in (tnt_comm.allreduce, group.allreduce, group.allgather, group.scatter):
        with pytest.raises(TypeError, match=r"`label` must be a str\. Received: None"):
            call(one, label=None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"`caller` must be a str\. Received: 5"):
            call(one, caller=5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`label` must be a str"):
        group.barrier(label=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"Each of `ranks` must be an int of 32 bits\. Received: "):
        tnt_comm.Group([0, 1 << 70])
    with pytest.raises(ValueError, match="ranks 1, 0"):
        tnt_comm.Group([1, 0])
    with pytest.raises(ValueError, match="not one of them"):
        tnt_comm.Group([1 - tnt_comm.get_rank()])
    assert group.allreduce(one)[0] == group.size
