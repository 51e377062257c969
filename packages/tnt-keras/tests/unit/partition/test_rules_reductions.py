"""Reductions: over rows they give totals, beside rows they give rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_replicas import assert_rule
from rule_sweep import SIZES, decision, placements_of, raw, sweep, types_of
from test_rules_along_axis import TYPES as ALONG_AXES
from test_rules_contraction import TYPES as CONTRACTIONS
from test_rules_matrices import TYPES as MATRICES

from tnt_keras.partition.rules import axes
from tnt_keras.partition.value import PARTIAL, REPLICATED, Partial, Placement, Shape, Sharded

EXAMPLES = settings().max_examples * 4 // 10
OVER_REPLICAS = {
    "Sum": "sum",
    "Mean": "sum",
    "Max": "max",
    "Min": "min",
    "Prod": "prod",
    "All": "and",
    "Any": "or",
}
ARGUMENTS = ["ArgMax", "ArgMin"]
OTHERS = ["BiasAddGrad", "Bincount", "DenseBincount", "InTopK", "InTopKV2", "L2Loss"]


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def values_for(name: str, *shape: int) -> Any:
    return floats(*shape) > 0.4 if name in ("All", "Any") else floats(*shape)


def test_each_operation_with_a_rule_is_tested() -> None:
    reductions = {*OVER_REPLICAS, "EuclideanNorm", *ARGUMENTS, *OTHERS}
    assert types_of(axes) == reductions | ALONG_AXES | CONTRACTIONS | MATRICES


@settings(max_examples=EXAMPLES)
@given(data=st.data(), size=st.sampled_from(SIZES))
@pytest.mark.parametrize("name", [*OVER_REPLICAS, "EuclideanNorm"])
def test_any_axes_are_reduced(name: str, data: st.DataObject, size: tuple[int, int]) -> None:
    num_rows, replicas = size
    sizes = st.sampled_from([1, 2, num_rows, 2 * num_rows])
    value = values_for(name, *data.draw(st.lists(sizes, min_size=1, max_size=3)))
    axes = data.draw(
        st.lists(st.integers(-value.ndim, value.ndim - 1), unique_by=lambda a: a % value.ndim)
    )
    placement = data.draw(st.sampled_from(placements_of(value, num_rows)))
    assert_rule(
        raw(name, keep_dims=data.draw(st.booleans())),
        [value, np.asarray(axes, np.int32)],
        [placement, REPLICATED],
        num_rows,
        replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize(("name", "reduction"), OVER_REPLICAS.items())
@pytest.mark.parametrize("keep", [True, False])
def test_rows_that_are_reduced_give_a_total(name: str, reduction: str, keep: bool) -> None:
    arrays = [values_for(name, 5, 3), np.asarray([0, 1], np.int32)]
    found = assert_rule(raw(name, keep_dims=keep), arrays, [Sharded(0), REPLICATED], 5, 3)
    assert found is not None
    assert found.outputs == (Partial(reduction),)
    assert found.weighted == (name == "Mean")


@pytest.mark.parametrize("name", [*OVER_REPLICAS, "EuclideanNorm"])
def test_rows_beside_reduced_axes_stay_rows(name: str) -> None:
    arrays = [values_for(name, 3, 5, 2), np.asarray([0, -1], np.int32)]
    found = assert_rule(raw(name), arrays, [Sharded(1), REPLICATED], 5, 3)
    assert found is not None
    assert found.outputs == (Sharded(0),)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_positions_of_extremes_are_found_beside_rows(name: str) -> None:
    make = raw(name)
    for axis in (0, 1, -1):
        sweep(make, [floats(4, 4, 3), np.int32(axis)], 4, 3, replicated=[1])
    kept = assert_rule(make, [floats(4, 3), np.int32(-1)], [Sharded(0), REPLICATED], 4, 3)
    assert kept is not None
    assert kept.outputs == (Sharded(0),)


@pytest.mark.parametrize("name", ["EuclideanNorm", *ARGUMENTS])
def test_norms_and_positions_over_rows_are_of_all_rows(name: str) -> None:
    arrays = [floats(4, 3), np.int32(0)]
    assert_rule(raw(name), arrays, [Sharded(0), REPLICATED], 4, 3, is_ruled=False)


@pytest.mark.parametrize("axes", [[], [0], [0, 1]])
def test_blocks_of_rows_have_one_mean(axes: list[int]) -> None:
    """Weights belong to the replica, however its rows lie."""
    arrays = [floats(12, 2), np.asarray(axes, np.int32)]
    for rows in (Sharded(0, 4), Sharded(0, 1, 4), Sharded(0, 2, 2)):
        assert_rule(tf.reduce_mean, arrays, [rows, REPLICATED], 3, 2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.complex64])
def test_sums_of_all_numbers_are_totals(dtype: Any) -> None:
    arrays = [np.arange(6).astype(dtype), np.int32(0)]
    found = assert_rule(tf.reduce_sum, arrays, [Sharded(0), REPLICATED], 6, 4)
    assert found is not None
    assert found.outputs == (PARTIAL,)


def test_a_mean_of_integers_is_of_all_rows() -> None:
    """It is rounded, so that means of replicas do not give it."""
    integers = np.arange(6, dtype=np.int32)
    arrays = [integers, np.int32(0)]
    assert_rule(tf.reduce_mean, arrays, [Sharded(0), REPLICATED], 6, 4, is_ruled=False)
    assert_rule(tf.reduce_mean, arrays, [PARTIAL, REPLICATED], 6, 4, is_ruled=False)
    arrays = [integers.reshape(3, 2), np.int32(1)]
    assert_rule(tf.reduce_mean, arrays, [Sharded(0), REPLICATED], 3, 2)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float64, tf.int8, tf.uint64])
@pytest.mark.parametrize("name", ["Max", "Min"])
def test_the_ends_of_a_type_are_found(name: str, dtype: tf.DType) -> None:
    ends = np.asarray([1, dtype.max, 1, dtype.min, 3], dtype.as_numpy_dtype)
    assert_rule(raw(name), [ends, np.int32(0)], [Sharded(0), REPLICATED], 5, 3)


@pytest.mark.parametrize("dtype", [tf.float32, tf.int64, tf.uint8])
def test_products_are_multiplied_over_replicas(dtype: tf.DType) -> None:
    factors = np.asarray([1, 2, 3, 4, 5], dtype.as_numpy_dtype)
    assert_rule(tf.reduce_prod, [factors, np.int32(0)], [Sharded(0), REPLICATED], 5, 3)


def test_products_of_complex_numbers_are_of_all_rows() -> None:
    factors = floats(4).astype(np.complex64)
    assert_rule(
        tf.reduce_prod, [factors, np.int32(0)], [Sharded(0), REPLICATED], 4, 3, is_ruled=False
    )


@pytest.mark.parametrize("name", ["Sum", "Mean"])
def test_totals_stay_totals(name: str) -> None:
    arrays = [floats(4, 3), np.asarray([1], np.int32)]
    found = assert_rule(raw(name), arrays, [PARTIAL, REPLICATED], 4, 3)
    assert found is not None
    assert (found.outputs, found.weighted) == ((PARTIAL,), False)


@pytest.mark.parametrize("name", ["Max", "Min", "Prod", "EuclideanNorm"])
def test_other_reductions_are_of_the_total_itself(name: str) -> None:
    arrays = [floats(4, 3), np.asarray([1], np.int32)]
    assert_rule(raw(name), arrays, [PARTIAL, REPLICATED], 4, 3, is_ruled=False)


def test_axes_that_are_not_known_are_not_guessed() -> None:
    arrays = [floats(4, 3), np.asarray([1], np.int32)]
    unknown = [False, False]
    for name in ("Sum", "Max"):
        assert_rule(
            raw(name), arrays, [Sharded(0), REPLICATED], 4, 3, is_ruled=False, constants=unknown
        )
    assert_rule(raw("Sum"), arrays, [PARTIAL, REPLICATED], 4, 3, constants=unknown)


def test_axes_are_the_same_in_all_replicas() -> None:
    """An operand of axes that has as many entries as there are rows has no rows."""
    arrays = [floats(2, 2, 2), np.asarray([0, 1], np.int32)]
    found = assert_rule(
        tf.reduce_sum,
        arrays,
        [Sharded(2), Sharded(0)],
        2,
        2,
        is_ruled=True,
        constants=[False, True],
    )
    assert found is not None
    assert found.inputs == (Sharded(2), REPLICATED)


def test_nan_in_one_replica_is_the_extreme_of_all() -> None:
    arrays = [np.asarray([1, 2, np.nan, 3, 4], np.float32), np.int32(0)]
    assert_rule(tf.reduce_max, arrays, [Sharded(0), REPLICATED], 5, 3)
    assert_rule(tf.reduce_min, arrays, [Sharded(0), REPLICATED], 5, 3)


def test_half_of_the_squares_is_a_total() -> None:
    found = sweep(raw("L2Loss"), [floats(4, 8)], 4, 3)
    assert {made.outputs for placed, made in found if made} == {(PARTIAL,)}
    assert all(made for placed, made in found if placed != (PARTIAL,))


@pytest.mark.parametrize(("layout", "shape"), [("NHWC", (4, 4)), ("NCHW", (4, 4, 4, 3))])
def test_the_gradient_of_a_bias_is_a_total_but_along_channels(layout: str, shape: Any) -> None:
    found = dict(sweep(raw("BiasAddGrad", data_format=layout), [floats(*shape)], 4, 3))
    first, channels = found[(Sharded(0),)], found[(Sharded(1),)]
    assert first is not None
    assert channels is not None
    assert (first.outputs, channels.outputs) == ((PARTIAL,), (Sharded(0),))


@pytest.mark.parametrize("name", ["Bincount", "DenseBincount"])
@pytest.mark.parametrize("shape", [(4,), (4, 3)])
@pytest.mark.parametrize("weighted", [True, False])
def test_elements_are_counted_and_weights_summed(name: str, shape: Any, weighted: bool) -> None:
    numbers = np.random.default_rng(1).integers(0, 4, shape, np.int32)
    weights = floats(*shape) if weighted else floats(0)
    found = dict(sweep(raw(name), [numbers, np.int32(3), weights], 4, 3, replicated=[1]))
    made = found[Sharded(0), REPLICATED, Sharded(0) if weighted else REPLICATED]
    assert made is not None
    is_of_each_row = name == "DenseBincount" and len(shape) == 2
    assert made.outputs == ((Sharded(0),) if is_of_each_row else (PARTIAL,))


def test_counts_of_each_row_are_rows() -> None:
    numbers = np.random.default_rng(1).integers(0, 4, (4, 5), np.int32)
    nothing = np.zeros((0,), np.float32)
    found = assert_rule(
        raw("DenseBincount", binary_output=True),
        [numbers, np.int32(4), nothing],
        [Sharded(0), REPLICATED, REPLICATED],
        4,
        3,
    )
    assert found is not None
    assert found.outputs == (Sharded(0),)


def test_whether_a_number_occurs_in_any_row_is_no_total() -> None:
    numbers, nothing = np.asarray([1, 1, 2, 1], np.int32), np.zeros((0,), np.float32)
    assert_rule(
        raw("DenseBincount", binary_output=True),
        [numbers, np.int32(4), nothing],
        [Sharded(0), REPLICATED, REPLICATED],
        4,
        3,
        is_ruled=False,
    )


def test_whether_targets_are_among_the_best_is_known_of_each_row() -> None:
    scores, targets = floats(4, 4), np.asarray([0, 3, 1, 2], np.int32)
    found = sweep(raw("InTopKV2"), [scores, targets, np.int32(2)], 4, 3, replicated=[2])
    found += sweep(raw("InTopK", k=2), [scores, targets], 4, 3)
    assert all(made for placed, made in found if placed[0] == Sharded(0))


def test_other_axes_may_be_of_unknown_size() -> None:
    for name, output in [("Sum", (4, 2)), ("Mean", (4, 2)), ("Max", (4, 2)), ("ArgMax", (4, 2))]:
        inputs: list[tuple[Shape, Placement]] = [((4, None, 2), Sharded(0)), ((), REPLICATED)]
        found = decision(name, inputs, [output], constants={1: 1}, keep_dims=False)
        assert found is not None
        assert found.outputs == (Sharded(0),)


def test_the_number_of_axes_must_be_known() -> None:
    inputs: list[tuple[Shape, Placement]] = [(None, Sharded(0)), ((), REPLICATED)]
    assert decision("Sum", inputs, [None], constants={1: -1}, keep_dims=False) is None
