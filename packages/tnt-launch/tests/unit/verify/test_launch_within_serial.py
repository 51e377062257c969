"""How far a run may be from the serial one is measured by a run whose weights were moved."""

import json
import math

import pytest
from run_files import end, header, step

from tnt_launch.verify.hash_file import parse_hash_file
from tnt_launch.verify.within_serial import (
    deviations,
    deviations_of_moving,
    largest,
    unit_of,
)

NAN = float("nan")


def run_of(*losses, norms=(0.0, 1.0), compute_dtype="float32", **others):
    lines = [step(number, {"loss": loss}) for number, loss in enumerate(losses, start=1)]
    written = [header(compute_dtype=compute_dtype), *lines, end(kernel=norms, **others)]
    return parse_hash_file(map(json.dumps, written), "hashes.jsonl")


def ratios(serial, moved, other):
    return [each.ratio for each in deviations(serial, moved, other)]


def test_without_growth_a_number_may_differ_by_the_unit_of_its_scale():
    serial = run_of(2.0, 1.0)
    found = ratios(serial, serial, run_of(2.0 + 2e-5, 1.0 - 1e-5))
    # Of the second step the scale is that of the first: 1e-5 of 2 * 2e-5.
    assert found[:2] == pytest.approx([0.5, 0.25])


def test_growth_is_ten_times_the_largest_that_moving_has_made_so_far():
    serial = run_of(1.0, 1.0, 1.0, 1.0)
    moved = run_of(1.0, 1.01, 1.0, 1.001)
    found = ratios(serial, moved, run_of(1.0, 1.05, 1.05, 1.2))
    assert found[:4] == pytest.approx([0, 0.5, 0.5, 2.0])


def test_each_result_of_each_kind_of_step_has_its_own_scale():
    def run(first, second):
        lines = [step(1, {"loss": first}), step(2, {"loss": second}, kind="test_step")]
        return parse_hash_file(map(json.dumps, [header(), *lines]), "hashes.jsonl")

    serial = run(100.0, 1.0)
    assert ratios(serial, serial, run(100.0, 1.0 + 1e-4)) == pytest.approx([0, 5.0], rel=1e-6)


@pytest.mark.parametrize(
    ("dtype", "unit"),
    [
        ("float32", 2e-5),
        ("float64", 2e-5),
        ("float16", 1e-2),
        ("mixed_float16", 1e-2),
        ("bfloat16", 6e-2),
        ("mixed_bfloat16", 6e-2),
    ],
)
def test_the_unit_is_that_of_the_type_that_layers_compute_in(dtype, unit):
    assert unit_of(dtype) == unit
    serial = run_of(1.0, compute_dtype=dtype)
    found = ratios(serial, serial, run_of(1.0 + unit / 2))
    assert found[0] == pytest.approx(0.5)


def test_variables_at_the_end_are_compared_by_mean_and_size():
    serial = run_of(1.0, norms=(0.0, 2.0), bias=(0.5, 0.5))
    moved = run_of(1.0, norms=(0.001, 2.0), bias=(0.5, 0.5))
    other = run_of(1.0, norms=(0.005, 2.0 + 8e-5), bias=(0.5, 0.5))
    found = list(deviations(serial, moved, other))
    assert [each.ratio for each in found] == pytest.approx([0, 0.5, 2.0, 0, 0])
    assert found[2].where == "at the end: root mean square of kernel"
    assert largest(found) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("serial", "moved", "other", "ratio"),
    [
        (NAN, NAN, NAN, 0),
        (1.0, 1.0, NAN, math.inf),
        (NAN, NAN, 1.0, math.inf),
        (math.inf, math.inf, math.inf, 0),
        (0.0, 0.0, 0.0, 0),
        (0.0, 0.0, 1e-9, math.inf),
    ],
)
def test_what_is_no_number_must_be_none_in_both(serial, moved, other, ratio):
    assert ratios(run_of(serial), run_of(moved), run_of(other))[0] == ratio


def test_arrays_have_no_value_to_compare():
    lines = [header(), step(1, {"output": "0a"}), end()]
    run = parse_hash_file(map(json.dumps, lines), "hashes.jsonl")
    assert ratios(run, run, run) == []
    assert largest([]) == 0


def test_after_one_step_moved_weights_have_made_no_more_than_rounding():
    assert largest(list(deviations_of_moving(run_of(1.0, 2.0), run_of(1.0 + 1e-6, 5.0)))) < 1
    assert largest(list(deviations_of_moving(run_of(1.0, 2.0), run_of(1.1, 2.0)))) > 1
