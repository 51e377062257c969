"""What ranks check of reducers."""

import gc
import threading
import weakref

import numpy as np
import pytest
from tree_reference import assert_same_bits, resolve, tree, values

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, TensorSpec

COUNTS = [94, 17, 2, 81, 0, 1, 5000, 100_003, 33, 64, 16_384, 7]


def make_plan(threshold_bytes: int, dtypes: tuple[str, ...] = ("float32",)) -> FusionPlan:
    specs = [TensorSpec(f"v{i}", dtypes[i % len(dtypes)], n) for i, n in enumerate(COUNTS)]
    return FusionPlan(specs, threshold_bytes)


def check_sums(threshold_bytes: int, dtypes: tuple[str, ...]) -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    plan = make_plan(threshold_bytes, dtypes)
    reducer = GradientReducer(plan)
    order = np.random.default_rng(rank)
    for step in range(4):
        for i in order.permutation(len(COUNTS)):
            spec = plan.tensors[i]
            reducer.start(int(i), values(str(spec.dtype), spec.num_elements, rank, seed=step))
        for i in order.permutation(len(COUNTS)):
            spec = plan.tensors[i]
            inputs = [values(str(spec.dtype), spec.num_elements, r, seed=step) for r in range(size)]
            assert_same_bits(reducer.finish(int(i)), tree(inputs, "sum"))
    reducer.close()


def check_reuse_for_many_steps() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    counts = [10, 3000, 1, 70_000]
    plan = FusionPlan([TensorSpec(str(i), "int64", n) for i, n in enumerate(counts)], 1000)
    reducer = GradientReducer(plan)
    outs = [np.empty(n, np.int64) for n in counts]
    for step in range(250):
        for i, count in enumerate(counts):
            reducer.start(i, np.arange(count) * (rank + 1) + step)
        for i, count in enumerate(counts):
            assert reducer.finish(i, outs[i]) is outs[i]
            expected = np.arange(count) * (size * (size + 1) // 2) + size * step
            np.testing.assert_array_equal(outs[i], expected)


def check_threads_in_random_orders() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    plan = make_plan(0)
    reducer = GradientReducer(plan)
    failures: list[BaseException] = []

    def work(thread: int) -> None:
        order = np.random.default_rng([rank, thread])
        mine = [i for i in range(len(COUNTS)) if i % 3 == thread]
        try:
            for step in range(40):
                for i in order.permutation(mine):
                    reducer.start(int(i), np.full(COUNTS[i], rank + step, np.float32))
                for i in order.permutation(mine):
                    total = size * (size - 1) // 2 + size * step
                    assert (reducer.finish(int(i)) == total).all()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(t,)) for t in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def check_scale() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        reducer = GradientReducer(FusionPlan([TensorSpec("x", dtype, 1009)], 0), name=dtype)
        factors = [0.1 + r for r in range(size)]
        wide = np.dtype("float64" if dtype == "float64" else "float32")
        scaled = [
            np.multiply(values(dtype, 1009, r), factors[r], dtype=wide).astype(resolve(dtype))
            for r in range(size)
        ]
        reducer.start(0, values(dtype, 1009, rank), factors[rank])
        assert_same_bits(reducer.finish(0), tree(scaled, "sum"))


def check_scale_zero_hides_nan() -> None:
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 3)], 0))
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    own = np.array([1, 2, 3] if rank == 0 else [np.nan, np.inf, -np.inf], np.float32)
    reducer.start(0, own, scale=1.0 if rank == 0 else 0.0)
    np.testing.assert_array_equal(reducer.finish(0), [1, 2, 3])
    integers = GradientReducer(FusionPlan([TensorSpec("i", "int32", 2)], 0))
    with pytest.raises(ValueError, match="scale=0\\.5"):
        integers.start(0, np.ones(2, np.int32), scale=0.5)
    integers.start(0, np.ones(2, np.int32), scale=1.0)
    assert integers.finish(0).tolist() == [size, size]


def check_wrong_order_of_calls() -> None:
    reducer = GradientReducer(make_plan(0), name="g")
    one = np.ones(94, np.float32)
    with pytest.raises(ValueError, match=r"finish of tensor 'v0', which is not started"):
        reducer.finish(0)
    reducer.start(0, one)
    with pytest.raises(ValueError, match=r"start of tensor 'v0', which is started and not"):
        reducer.start(0, one)
    with pytest.raises(ValueError, match="93 elements"):
        reducer.start(1, one[:93])
    with pytest.raises(ValueError, match="float64"):
        reducer.start(0, one.astype(np.float64))
    with pytest.raises(IndexError):
        reducer.start(len(COUNTS), one)
    assert (reducer.finish(0) == tnt_comm.get_size()).all()
    reducer.close()
    reducer.close()
    with pytest.raises(ValueError, match="handle"):
        reducer.start(0, one)


def check_two_reducers_in_opposite_orders() -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    reducers = [GradientReducer(make_plan(1 << 20), name=name) for name in ("a", "b")]
    order = reducers if rank == 0 else reducers[::-1]
    for reducer in order:
        for i, count in enumerate(COUNTS):
            reducer.start(i, np.ones(count, np.float32))
    for reducer in order:
        for i in range(len(COUNTS)):
            assert (reducer.finish(i) == size).all()


def check_sums_into_arrays(threshold_bytes: int) -> None:
    """Each rank chooses for itself what is summed in place, elsewhere, or copied."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    plan = make_plan(threshold_bytes)
    reducer = GradientReducer(plan)
    choices = np.random.default_rng(rank)
    for step in range(5):
        outs: dict[int, np.ndarray | None] = {}
        for i, count in enumerate(COUNTS):
            array = values("float32", count, rank, seed=step)
            in_place, elsewhere, copied = array, np.empty_like(array), None
            outs[i] = [in_place, elsewhere, copied][choices.integers(3)]
            reducer.start(i, array, out=outs[i])
        for i, count in enumerate(COUNTS):
            total = reducer.finish(i)
            assert outs[i] is None or total is outs[i]
            inputs = [values("float32", count, r, seed=step) for r in range(size)]
            assert_same_bits(total, tree(inputs, "sum"))
    reducer.close()


def check_mistakes_with_out() -> None:
    reducer = GradientReducer(make_plan(0), name="g")
    large = COUNTS.index(100_003)
    array = np.ones(COUNTS[large], np.float32)
    with pytest.raises(ValueError, match=r"`out` must have shape \(100003,\)"):
        reducer.start(large, array, out=array[:-1])
    frozen = array.copy()
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="`out` must be C-contiguous and writeable"):
        reducer.start(large, array, out=frozen)
    reducer.start(large, array, out=array)
    with pytest.raises(ValueError, match="was started with `out`"):
        reducer.finish(large, out=np.empty_like(array))
    assert reducer.finish(large) is array
    assert (array == tnt_comm.get_size()).all()
    reducer.start(large, np.ones_like(array))  # the next step may do without
    assert reducer.finish(large) is not array


def check_arrays_live_as_long_as_the_reducer_needs_them() -> None:
    """The caller forgets both arrays, and other ranks come much later."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    reducer = GradientReducer(make_plan(0))
    large = COUNTS.index(100_003)
    seen: list[weakref.ref[np.ndarray]] = []

    def start() -> None:
        array, out = np.full(COUNTS[large], rank + 1.0, np.float32), np.empty(COUNTS[large], "f4")
        seen.extend((weakref.ref(array), weakref.ref(out)))
        reducer.start(large, array, out=out)

    if rank == 0:
        start()
        gc.collect()
        assert all(ref() is not None for ref in seen)
    tnt_comm.barrier()
    if rank != 0:
        start()
    assert (reducer.finish(large) == size * (size + 1) // 2).all()
    gc.collect()
    assert all(ref() is None for ref in seen)
