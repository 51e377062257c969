"""With XLA, several ranks give what the serial run gives with XLA."""

from __future__ import annotations

import re
from typing import Any

import compiled_trainings
import numpy as np
import pytest
from cases import cases
from classifiers import samples
from rank_pools import ENVIRONMENT
from serial_results import assert_serial

from tnt_comm.testing import observe_ranks, run_ranks

FUNCTIONS = {
    "draws": 2,
    "statistics of the batch": 6,
    "recurrent": 2,
    "scaled": 3,
    "accumulated": 3,
}
"""One more than exchanges, which are one for gradients and metrics, one for statistics and one for
their derivatives, and one for gradients that must be finite before anything is updated. Statistics
and derivatives are used by rows and kept by all ranks: one function more each."""


@cases("name", ["draws", "statistics of the batch"], thorough=FUNCTIONS)
def test_a_training_equals_the_serial_one(name: str, pool_of: Any) -> None:
    result, _ = assert_serial(compiled_trainings.trained, pool_of, name)
    told, _ = result["told"]
    assert told.endswith(f"; XLA compiles {FUNCTIONS[name]} functions between exchanges")


def test_averages_of_weights_are_alike_beside_gradients_that_are_not(pool_of: Any) -> None:
    """Of a penalty one rank adds the gradient to those that it accumulates."""
    of_ranks = pool_of(3).run(compiled_trainings.averages_beside_accumulated_gradients)
    for averages in of_ranks[1:]:
        for average, expected in zip(averages, of_ranks[0], strict=True):
            np.testing.assert_array_equal(average, expected)


def test_a_function_of_the_user_equals_the_serial_one(pool_of: Any) -> None:
    assert_serial(compiled_trainings.own_loop, pool_of)


def test_no_step_follows_the_last_batch(pool_of: Any) -> None:
    [expected] = pool_of(1).run(compiled_trainings.steps_of_an_epoch_of_unknown_length, False)
    steps = pool_of(2).run(compiled_trainings.steps_of_an_epoch_of_unknown_length, True)
    assert steps == [expected, expected]


def test_nothing_is_compiled_where_keras_chooses_so(pool_of: Any) -> None:
    [expected] = pool_of(1).run(compiled_trainings.chosen_by_keras, False)
    assert pool_of(2).run(compiled_trainings.chosen_by_keras, True) == [expected] * 2


def test_what_xla_does_not_know_is_the_error_of_the_serial_run(preloaded: Any) -> None:
    function = compiled_trainings.with_what_xla_does_not_know
    [serial] = run_ranks(function, 1, False, env=ENVIRONMENT, preloaded=preloaded)
    reports = observe_ranks(function, 2, True, env=ENVIRONMENT, preloaded=preloaded)
    for error in (serial, *(report.value for report in reports)):
        assert re.search("Detected unsupported operations .*AsString", error), error


def test_ranks_that_differ_are_an_error(preloaded: Any) -> None:
    reports = observe_ranks(
        compiled_trainings.on_one_rank_alone, 2, env=ENVIRONMENT, preloaded=preloaded
    )
    for report in reports:
        assert "`jit_compile`" in report.value, report.full_text()


@pytest.mark.parametrize("size", [1, 2])
def test_lanes_are_not_compiled_with_a_warning(size: int, preloaded: Any) -> None:
    env = ENVIRONMENT | {"TNT_LANES": "2"}
    results = run_ranks(compiled_trainings.with_lanes, size, env=env, preloaded=preloaded)
    for result in results:
        assert result["in force"] is False
        np.testing.assert_allclose(result["mean"], samples()[0].mean(), rtol=1e-5)
    of_model, of_function = results[0]["ignored"]
    assert of_model == of_function
    assert of_model.startswith("jit_compile=True is ignored with lanes:")


def test_lanes_given_late_turn_xla_off_with_a_warning(preloaded: Any) -> None:
    [result] = run_ranks(
        compiled_trainings.with_lanes_given_late, 1, env=ENVIRONMENT, preloaded=preloaded
    )
    assert result["in force"] is False
    assert len(result["ignored"]) == 1
