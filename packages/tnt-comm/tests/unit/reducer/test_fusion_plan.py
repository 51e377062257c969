"""The greedy rule that puts tensors into buckets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_comm import FusionPlan, TensorSpec

FLOAT = 4  # bytes

# The golden examples of the original: sizes in floats, and the buckets as sums of sizes.
GOLDEN = [
    (2, [[94], [17], [2], [81]]),
    (10, [[94], [17], [2, 81]]),
    (100, [[94, 17], [2, 81]]),
    (112, [[94, 17, 2], [81]]),
    (200, [[94, 17, 2, 81]]),
]

specs = st.lists(
    st.tuples(st.sampled_from(["float32", "float64", "bfloat16", "int8"]), st.integers(0, 200)),
    max_size=40,
).map(lambda pairs: [TensorSpec(f"t{i}", d, n) for i, (d, n) in enumerate(pairs)])


def sizes_of(plan: FusionPlan) -> list[list[int]]:
    return [[plan.tensors[i].num_elements for i in b.tensor_ids] for b in plan.buckets]


def itemsize(dtype: str) -> int:
    return {"float32": 4, "float64": 8, "bfloat16": 2, "int8": 1}[dtype]


@pytest.mark.parametrize(("threshold_floats", "expected"), GOLDEN)
def test_golden_examples_in_the_order_in_which_gradients_appear(
    threshold_floats: int, expected: list[list[int]]
) -> None:
    # The plan goes from the last tensor to the first.
    tensors = [TensorSpec(f"t{i}", "float32", n) for i, n in enumerate([81, 2, 17, 94])]
    plan = FusionPlan(tensors, threshold_floats * FLOAT)
    assert sizes_of(plan) == expected
    assert [b.num_elements for b in plan.buckets] == [sum(sizes) for sizes in expected]


def test_offsets_are_the_sums_of_the_sizes_before() -> None:
    tensors = [TensorSpec(f"t{i}", "float32", n) for i, n in enumerate([5, 3, 4])]
    (bucket,) = FusionPlan(tensors, 1 << 20).buckets
    assert bucket.tensor_ids == (2, 1, 0)
    assert bucket.offsets == (0, 4, 7)


def test_threshold_zero_fuses_nothing() -> None:
    tensors = [TensorSpec(f"t{i}", "float32", n) for i, n in enumerate([5, 0, 0, 4])]
    assert [b.tensor_ids for b in FusionPlan(tensors, 0).buckets] == [(3,), (2,), (1,), (0,)]


def test_dtypes_do_not_share_buckets() -> None:
    tensors = [TensorSpec(f"t{i}", d, 10) for i, d in enumerate(["float32", "bfloat16"] * 2)]
    plan = FusionPlan(tensors, 1 << 20)
    assert [(b.dtype, b.tensor_ids) for b in plan.buckets] == [
        ("bfloat16", (3, 1)),
        ("float32", (2, 0)),
    ]


def test_an_empty_plan_has_no_buckets() -> None:
    assert FusionPlan([], 32768).buckets == ()


@given(specs, st.integers(0, 2000))
def test_every_tensor_is_in_exactly_one_bucket_without_overlap(
    tensors: list[TensorSpec], threshold: int
) -> None:
    plan = FusionPlan(tensors, threshold)
    assert sorted(i for b in plan.buckets for i in b.tensor_ids) == list(range(len(tensors)))
    for bucket in plan.buckets:
        end = 0
        for i, offset in zip(bucket.tensor_ids, bucket.offsets, strict=True):
            assert offset == end
            assert tensors[i].dtype == bucket.dtype
            end += tensors[i].num_elements
        assert bucket.num_elements == end


@given(specs, st.integers(1, 2000))
def test_buckets_reach_the_threshold_and_not_without_their_last_tensor(
    tensors: list[TensorSpec], threshold: int
) -> None:
    plan = FusionPlan(tensors, threshold)
    for dtype in {b.dtype for b in plan.buckets}:
        buckets = [b for b in plan.buckets if b.dtype == dtype]
        for bucket in buckets[:-1]:
            assert bucket.num_elements * itemsize(dtype) >= threshold
        for bucket in buckets:
            assert bucket.offsets[-1] * itemsize(dtype) < threshold


@given(specs, st.integers(0, 2000))
def test_ids_fall_inside_and_between_buckets_of_a_dtype(
    tensors: list[TensorSpec], threshold: int
) -> None:
    plan = FusionPlan(tensors, threshold)
    for dtype in {b.dtype for b in plan.buckets}:
        ids = [i for b in plan.buckets if b.dtype == dtype for i in b.tensor_ids]
        assert ids == sorted(ids, reverse=True)


def test_specs_accept_numpy_dtypes_and_refuse_others() -> None:
    assert TensorSpec("x", np.dtype(np.float16), 1).dtype == "float16"
    assert TensorSpec("x", np.float64, 1).dtype == "float64"  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="complex128"):
        TensorSpec("x", "complex128", 1)
    with pytest.raises(ValueError, match="num_elements=-1"):
        TensorSpec("x", "float32", -1)
    with pytest.raises(ValueError, match="threshold_bytes=-1"):
        FusionPlan([], -1)
