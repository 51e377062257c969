"""The tolerance of a value follows its formula, and sees what depends on the order of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tnt_keras.probe.comparison.tolerance import Tolerances, coarsest, scale_of_rounding
from tnt_keras.probe.runs.observation import NUM_SAMPLED, Kind, Observed, Quantity

EPS = 2.0**-23
GRADIENT = Quantity(Kind.GRADIENT, 0, "kernel")
SMALL = Quantity(Kind.GRADIENT, 1, "bias")
LOSS = Quantity(Kind.METRIC, 3, "loss/total")
STATE = Quantity(Kind.VARIABLE, 2, "moving mean")


def observed(*entries: float) -> Observed:
    return Observed.of(np.array(entries))


def test_tolerance_is_a_multiple_of_the_rounding_of_the_largest_entry() -> None:
    serial = {GRADIENT: observed(2.0, -8.0)}
    tolerances = Tolerances(serial, serial, coarsest({"float32"}), {})
    assert tolerances.of(GRADIENT, serial[GRADIENT]) == pytest.approx(200 * EPS * 8.0)


def test_noise_of_permuted_rows_counts_up_to_a_hundredth_of_the_value() -> None:
    serial = {GRADIENT: observed(1.0, 0.5)}
    little = Tolerances(serial, {GRADIENT: observed(1.0 + 3e-6, 0.5)}, coarsest({"float32"}), {})
    assert little.of(GRADIENT, serial[GRADIENT]) == pytest.approx(200 * 3e-6)
    much = Tolerances(serial, {GRADIENT: observed(1.5, 0.5)}, coarsest({"float32"}), {})
    assert much.of(GRADIENT, serial[GRADIENT]) == pytest.approx(0.01)


def test_a_gradient_of_rounding_alone_is_measured_by_the_largest_one() -> None:
    serial = {GRADIENT: observed(4.0), SMALL: observed(1e-9)}
    tolerances = Tolerances(serial, serial, coarsest({"float32"}), {})
    assert tolerances.of(SMALL, serial[SMALL]) == pytest.approx(200 * 0.1 * EPS * 4.0)


def test_the_move_of_a_large_variable_has_the_rounding_of_the_variable() -> None:
    serial = {STATE: Observed.of_move(np.array([1e6]), np.array([1e6 + 1.0]))}
    tolerances = Tolerances(serial, serial, coarsest({"float32"}), {})
    assert tolerances.of(STATE, serial[STATE]) == pytest.approx(200 * EPS * (1e6 + 1.0))


def test_a_variable_that_becomes_small_has_the_rounding_of_what_it_is_then() -> None:
    serial = {STATE: Observed.of_move(np.array([1e9]), np.array([2.0]))}
    tolerances = Tolerances(serial, serial, coarsest({"float32"}), {})
    assert tolerances.of(STATE, serial[STATE]) == pytest.approx(200 * EPS * 2.0)


def test_a_variable_that_vanishes_has_the_rounding_of_what_it_was() -> None:
    serial = {STATE: Observed.of_move(np.array([-3.0]), np.array([0.0]))}
    tolerances = Tolerances(serial, serial, coarsest({"float32"}), {})
    assert tolerances.of(STATE, serial[STATE]) == pytest.approx(200 * EPS * 3.0)


def test_noise_of_made_up_values_counts_up_to_a_twentieth_if_it_was_measured() -> None:
    serial = {GRADIENT: observed(1.0, 0.5)}
    precision = coarsest({"float32"})
    strict = Tolerances(serial, None, precision, {}, are_made_up=True)
    assert strict.of(GRADIENT, serial[GRADIENT]) == pytest.approx(200 * EPS)
    noisy = {GRADIENT: observed(1.5, 0.5)}
    measured = Tolerances(serial, noisy, precision, {}, are_made_up=True)
    assert measured.of(GRADIENT, serial[GRADIENT]) == pytest.approx(0.05)
    assert not measured.depends_on_order(GRADIENT, serial[GRADIENT])


def test_what_was_infinite_counts_as_zero() -> None:
    moved = Observed.of_move(np.array([np.inf, 1.0]), np.array([2.0, np.inf]))
    assert moved.entries.tolist() == [2.0, np.inf]


@pytest.mark.parametrize(
    ("dtypes", "of_one"),
    [
        ({"float32"}, 200 * 2.0**-23),
        ({"float32", "bfloat16"}, 15 * 2.0**-8),
        ({"float16", "float32"}, 15 * 2.0**-10),
        ({"int32", "string"}, 200 * 2.0**-23),
    ],
)
def test_the_coarsest_type_that_computes_decides(dtypes: set[str], of_one: float) -> None:
    serial = {GRADIENT: observed(1.0)}
    tolerances = Tolerances(serial, serial, coarsest(dtypes), {})
    assert tolerances.of(GRADIENT, serial[GRADIENT]) == pytest.approx(of_one)


def test_rounding_is_no_dependence_on_the_order_but_another_value_is() -> None:
    serial = {GRADIENT: observed(1.0, 0.5)}
    rounded = Tolerances(serial, {GRADIENT: observed(1.0, 0.5 + 1e-6)}, coarsest({"float32"}), {})
    assert not rounded.depends_on_order(GRADIENT, serial[GRADIENT])
    other = Tolerances(serial, {GRADIENT: observed(1.0, 0.6)}, coarsest({"float32"}), {})
    assert other.depends_on_order(GRADIENT, serial[GRADIENT])


def test_of_a_large_tensor_the_same_entries_are_kept_each_time() -> None:
    values = np.arange(10 * NUM_SAMPLED, dtype=np.float32)
    one, other = Observed.of(values), Observed.of(2 * values)
    assert NUM_SAMPLED / 2 < len(one.entries) <= NUM_SAMPLED
    np.testing.assert_array_equal(2 * one.entries, other.entries)
    assert one.scale == values[-1]  # the largest entry is that of all


def test_a_value_that_has_become_small_may_deviate_as_it_might_at_first() -> None:
    """Of a network that has learned its samples, rounding is most of what is left."""
    now, permuted = {GRADIENT: observed(1e-7)}, {GRADIENT: observed(0.4e-7)}
    first = Tolerances(now, permuted, coarsest({"float32"}), {})
    again = Tolerances(now, permuted, coarsest({"float32"}), {GRADIENT: 1.0})
    assert first.depends_on_order(GRADIENT, now[GRADIENT])
    assert not again.depends_on_order(GRADIENT, now[GRADIENT])
    assert again.of(GRADIENT, now[GRADIENT]) >= 200 * 2.0**-23


def test_a_loss_that_has_become_small_may_deviate_as_it_might_at_first() -> None:
    first = Observed.of_move(np.array([0.0]), np.array([2.0]))
    now = Observed.of_move(np.array([0.0]), np.array([1e-6]))
    scales = {LOSS: scale_of_rounding(LOSS, first)}
    tolerances = Tolerances({LOSS: now}, {LOSS: now}, coarsest({"float32"}), scales)
    assert tolerances.of(LOSS, now) == pytest.approx(200 * EPS * 2.0)


def test_a_minimum_that_began_with_a_bound_has_the_rounding_of_what_it_became_at_first() -> None:
    first = Observed.of_move(np.array([1e9]), np.array([2.0]))
    now = Observed.of_move(np.array([1e9]), np.array([1.0]))
    scales = {LOSS: scale_of_rounding(LOSS, first)}
    tolerances = Tolerances({LOSS: now}, {LOSS: now}, coarsest({"float32"}), scales)
    assert tolerances.of(LOSS, now) == pytest.approx(200 * EPS * 2.0)


def test_made_up_samples_may_deviate_by_a_twentieth() -> None:
    now, permuted = {GRADIENT: observed(2.0, 1.0)}, {GRADIENT: observed(2.0, 1.06)}
    of_data = Tolerances(now, permuted, coarsest({"float32"}), {})
    made_up = Tolerances(now, permuted, coarsest({"float32"}), {}, are_made_up=True)
    assert of_data.depends_on_order(GRADIENT, now[GRADIENT])
    assert not made_up.depends_on_order(GRADIENT, now[GRADIENT])
    assert made_up.of(GRADIENT, now[GRADIENT]) == pytest.approx(0.05 * 2.0)
