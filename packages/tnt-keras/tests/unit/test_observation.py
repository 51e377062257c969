"""What is kept of a value is as exact as with float64, whatever the type that holds it."""

import ml_dtypes
import numpy as np
import pytest

from tnt_keras.probe.runs.observation import NUM_SAMPLED, Observed

FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e5m2"]
LARGEST = {"bool": True, "uint8": 255, "int8": -128, "int64": -(2**63)}


def array_of(values, dtype):
    """Array of a type of numpy or ml_dtypes."""
    return np.array(values, getattr(ml_dtypes, dtype, dtype))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("strange", [np.nan, np.inf, -np.inf])
def test_the_scale_is_the_largest_finite_entry(dtype, strange):
    value = array_of([1, -5, strange, 3], dtype)
    assert Observed.of(value).scale == 5
    assert Observed.of_move(np.zeros_like(value), value).scale == 5
    assert Observed.of_move(value, np.zeros_like(value)).former_magnitude == 5
    assert Observed.of(array_of([strange], dtype)).scale == 0
    assert Observed.of(array_of([], dtype)).scale == 0


@pytest.mark.parametrize("dtype", [*FLOATS, *LARGEST])
def test_a_move_is_not_limited_by_the_range_of_the_type(dtype):
    largest = LARGEST.get(dtype)
    if largest is None:
        largest = ml_dtypes.finfo(dtype).max if dtype not in ("float32", "float64") else 1e30
    value = array_of([0, largest], dtype)
    moved = Observed.of_move(value, value[::-1])
    expected = float(value[1])
    assert moved.entries.tolist() == [expected, -expected]
    assert (moved.scale, moved.magnitude) == (abs(expected), abs(expected))
    assert Observed.of(value).scale == abs(expected)


def test_of_a_large_tensor_a_sample_is_kept_and_the_scale_of_all_of_it():
    value = np.zeros((3 * NUM_SAMPLED, 10), np.float32)
    seen = {place for place in range(value.size) if place % 7}
    value.reshape(-1)[list(seen)] = 1.5
    places = set(Observed.of(value).places)
    outlier = next(place for place in seen if place not in places)
    value.reshape(-1)[outlier] = -9
    kept = Observed.of(value)
    assert len(kept.entries) <= NUM_SAMPLED
    assert set(kept.entries) == {0, 1.5}
    assert kept.scale == 9
    assert Observed.of_move(value, 2 * value).scale == 9


def test_of_a_large_tensor_with_few_entries_these_are_kept():
    value = np.zeros((50_000, 16), np.float32)
    value[[3, 49_000]] = 2
    kept = Observed.of(value)
    assert np.count_nonzero(kept.entries) == 32
    moved = Observed.of_move(value, np.where(value, 5, 0))
    assert np.count_nonzero(moved.entries) == 32
    of_a_part = np.zeros_like(value)
    of_a_part[3] = 2
    assert np.count_nonzero(Observed.of(of_a_part, like=kept).entries) == 16
    assert len(Observed.of(of_a_part[:9], like=kept).entries) == 9 * 16


@pytest.mark.parametrize(("dtype", "limit"), [("int64", 2.0**63), ("int32", 2.0**31 - 1)])
def test_sums_of_integers_have_a_limit(dtype, limit):
    zero, one = array_of([0], dtype), array_of([1], dtype)
    assert Observed.of_move(zero, one).limit == limit
    assert Observed.of_move(zero.astype("float32"), one.astype("float32")).limit == np.inf
