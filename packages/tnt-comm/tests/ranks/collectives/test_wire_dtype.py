"""Compressed buckets: sums of rounded tensors, formed in float32 and rounded once."""

from collections.abc import Callable

import numpy as np
import pytest
from tree_reference import assert_same_bits, resolve, tree, values

import tnt_comm
from tnt_comm import FusionPlan, GradientReducer, MismatchError, TensorSpec
from tnt_comm.testing import RankPool, run_ranks

Pools = Callable[[int], RankPool]

ROUNDOFF = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
COUNTS = [94, 17, 0, 1, 100_003, 5000]


def compress(x: np.ndarray, wire: str, scale: float) -> np.ndarray:
    return np.multiply(x, np.float32(scale), dtype=np.float32).astype(resolve(wire))


def check_sums(wire: str, threshold_bytes: int) -> None:
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    specs = [TensorSpec(f"v{i}", "float32", n) for i, n in enumerate(COUNTS)]
    reducer = GradientReducer(FusionPlan(specs, threshold_bytes, wire))
    scales = [1.0, 0.3, 0.1, 1.0]
    for step in range(4):
        for i, count in enumerate(COUNTS):
            reducer.start(i, values("float32", count, rank, seed=step), scales[rank])
        for i, count in enumerate(COUNTS):
            inputs = [values("float32", count, r, seed=step) for r in range(size)]
            rounded = [compress(x, wire, scales[r]) for r, x in enumerate(inputs)]
            found = reducer.finish(i)
            assert found.dtype == np.float32
            # The reference sums 16-bit floats in float32 over the whole tree.
            assert_same_bits(found, tree(rounded, "sum").astype(np.float32))
    reducer.close()


@pytest.mark.parametrize("threshold_bytes", [0, 32768, 1 << 30])
@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums_are_the_rounded_float32_sums_of_rounded_tensors(
    pool_of: Pools, size: int, wire: str, threshold_bytes: int
) -> None:
    pool_of(size).run(check_sums, wire, threshold_bytes)


def check_error_bound(wire: str) -> None:
    rank, size, u = tnt_comm.get_rank(), tnt_comm.get_size(), ROUNDOFF[wire]
    count = 20_000
    parts = [np.random.default_rng(r).normal(size=count).astype(np.float32) for r in range(size)]
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", count)], 0, wire))
    reducer.start(0, parts[rank])
    exact = np.sum([part.astype(np.float64) for part in parts], axis=0)
    magnitudes = np.sum([np.abs(part.astype(np.float64)) for part in parts], axis=0)
    of_float32 = size * 2.0**-24 * magnitudes
    bound = u * (1 + u) * magnitudes + u * np.abs(exact) + 2 * of_float32
    error = np.abs(reducer.finish(0) - exact)
    assert (error <= bound).all()
    assert (error > bound / 100).any()  # it is the error of the compression that is bounded


@pytest.mark.parametrize("wire", ["bfloat16", "float16"])
def test_the_error_is_within_the_documented_bound(pool_of: Pools, wire: str) -> None:
    pool_of(3).run(check_error_bound, wire)


def check_other_dtypes() -> None:
    """float64 and integers keep their bits; what travels is counted."""
    rank, size = tnt_comm.get_rank(), tnt_comm.get_size()
    dtypes = ["float32", "float64", "int64", "bfloat16", "float16"]
    specs = [TensorSpec(dtype, dtype, 1009) for dtype in dtypes]
    plan = FusionPlan(specs, 0, "bfloat16")
    assert {b.dtype: b.wire_dtype for b in plan.buckets} == {
        **dict(zip(dtypes, dtypes, strict=True)),
        "float32": "bfloat16",
    }
    reducer = GradientReducer(plan)
    before = tnt_comm.counters()
    for i, dtype in enumerate(dtypes):
        reducer.start(i, values(dtype, 1009, rank))
    for i, dtype in enumerate(dtypes[1:], start=1):
        assert_same_bits(
            reducer.finish(i), tree([values(dtype, 1009, r) for r in range(size)], "sum")
        )
    reducer.finish(0)
    sent = (tnt_comm.counters() - before).num_bytes
    assert sent == sum(b.num_wire_bytes for b in plan.buckets) == 1009 * (2 + 8 + 8 + 2 + 2)


def test_only_float32_tensors_are_compressed(pool_of: Pools) -> None:
    pool_of(2).run(check_other_dtypes)


def check_special_values() -> None:
    own = np.array([np.nan, np.inf, 70_000.0, 1e-9, -0.0], np.float32)
    reducer = GradientReducer(FusionPlan([TensorSpec("x", "float32", 5)], 0, "float16"))
    is_first = tnt_comm.get_rank() == 0
    reducer.start(0, own, scale=1.0 if is_first else 0.0)
    np.testing.assert_array_equal(reducer.finish(0), [np.nan, np.inf, np.inf, 0, 0])
    wider = GradientReducer(FusionPlan([TensorSpec("x", "float32", 5)], 0, "bfloat16"))
    wider.start(0, own, scale=1.0 if is_first else 0.0)
    assert wider.finish(0)[2] == pytest.approx(70_000, rel=ROUNDOFF["bfloat16"])


def test_float16_overflows_where_bfloat16_does_not(pool_of: Pools) -> None:
    pool_of(2).run(check_special_values)


def create_with_different_wires() -> str:
    wire = "bfloat16" if tnt_comm.get_rank() == 0 else None
    try:
        GradientReducer(FusionPlan([TensorSpec("x", "float32", 5)], 0, wire))
    except MismatchError as error:
        return str(error)
    return ""


def test_ranks_must_agree_on_the_wire_dtype() -> None:
    for message in run_ranks(create_with_different_wires, 2):
        assert "the wire dtype bfloat16" in message
        assert "the wire dtype none" in message


def test_other_wire_dtypes_are_refused() -> None:
    with pytest.raises(ValueError, match="wire_dtype='float64'"):
        FusionPlan([], 0, "float64")
