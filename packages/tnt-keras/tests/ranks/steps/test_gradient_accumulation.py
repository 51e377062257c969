"""Gradients accumulate on each rank, move once per update, and give the serial result."""

from __future__ import annotations

import pathlib
from typing import Any

import accumulating
import numpy as np
import pytest
from cases import cases
from serial_results import assert_close, assert_serial

BOUND = 1e-5


@cases(
    ("size", "num_steps", "arguments"),
    [(2, 3, {"steps_per_execution": 4})],
    thorough=[(3, 2, {}), (2, 3, {"run_eagerly": True}), (1, 3, {})],
    ids=str,
)
def test_training_equals_serial(
    size: int, num_steps: int, arguments: dict[str, Any], pool_of: Any
) -> None:
    assert_serial(accumulating.train, pool_of, num_steps, arguments, size=size, bound=BOUND)


@cases("eager", [False], thorough=[True])
def test_an_update_drops_the_sums_of_all_variables_as_keras_does(eager: bool, pool_of: Any) -> None:
    assert_serial(accumulating.train_in_turns, pool_of, eager, bound=BOUND)


@cases("size", [2], thorough=[3])
def test_file_of_an_unfinished_update_is_the_serial_one(
    size: int, pool_of: Any, tmp_path: pathlib.Path
) -> None:
    [serial] = pool_of(1).run(accumulating.train_with_two_stops, False, tmp_path, False)
    stopped = pool_of(size).run(accumulating.train_with_two_stops, True, tmp_path, False)
    continued = pool_of(size).run(accumulating.train_with_two_stops, True, tmp_path, True)
    [continued_serially] = pool_of(1).run(accumulating.train_with_two_stops, False, tmp_path, True)
    for result in (*stopped, *continued, continued_serially):
        assert_close(result, serial, BOUND)
    for result, other in zip(stopped, continued, strict=True):  # bit for bit: added up alike
        for name in serial:
            for value, same in zip(result[name], other[name], strict=True):
                np.testing.assert_array_equal(value, same)


@pytest.mark.thorough
def test_copy_in_an_unfinished_update_goes_on_as_the_serial_one(pool_of: Any) -> None:
    assert_serial(accumulating.train_a_copy, pool_of, bound=BOUND)


def test_gradients_move_once_per_update_while_backpropagation_goes_on(pool_of: Any) -> None:
    num_steps = 3
    for counted, num_bytes in pool_of(2).run(accumulating.bytes_of_steps, num_steps):
        assert len(counted) == 2 * num_steps + 1
        # The first steps with an update and without one also prepare the exchanges.
        for step, sent in list(enumerate(counted))[num_steps:]:
            if (step + 1) % num_steps == 0:
                assert num_bytes <= sent < num_bytes + 100
            else:
                assert sent < 100  # the loss, and the number of samples


def test_gradients_of_a_penalty_move_once_per_update_too(pool_of: Any) -> None:
    """All ranks have it alike, and one adds it to the gradients that it accumulates."""
    (without_update, with_update, *_), _ = pool_of(2).run(accumulating.told_of_a_penalty)
    assert without_update.endswith(": 3 values (12 B) at the end, nothing else")
    num_bytes = 4 * (11 * 4 + 40 * 3 + 3)  # those of the weights
    assert with_update.endswith(f", 3 values ({num_bytes} B) within the step")


def test_file_that_one_rank_writes_of_an_unfinished_update_is_warned_about(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    of_master, of_other = pool_of(2).run(accumulating.warnings_of_a_file_of_one_rank, tmp_path)
    warning, end = of_master
    assert "during gradient accumulation by one rank only" in warning
    assert end == "end of epoch"
    assert of_other == []
