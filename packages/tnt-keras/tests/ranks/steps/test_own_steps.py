"""Steps that users write give the serial result."""

from __future__ import annotations

from typing import Any

import own_steps
import pytest
from cases import cases
from serial_results import assert_serial


@cases(("size", "run_eagerly"), [(2, False)], thorough=[(3, False), (2, True)])
@pytest.mark.parametrize(
    "function",
    [
        own_steps.loss_scale_of_another_optimizer,
        own_steps.applied_twice,
        own_steps.optimizer_made_in_the_step,
        own_steps.optimizer_of_two_models,
        own_steps.tensorflow_variables,
        own_steps.all_kinds_of_logs,
    ],
    ids=lambda function: function.__name__,
)
def test_step_gives_the_serial_result(
    function: Any, size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_serial(function, pool_of, run_eagerly, size=size)


@cases("size", [2], thorough=[3])
def test_eager_steps_may_look_at_values(size: int, pool_of: Any) -> None:
    assert_serial(own_steps.numpy_in_eager_steps, pool_of, size=size)


def test_fit_that_leaves_out_ours_is_named(pool_of: Any) -> None:
    for kind, text in pool_of(2).run(own_steps.error_of_fit_past_ours):
        assert kind == "RuntimeError"
        assert "call `super().fit(...)`" in text


def test_loop_of_ones_own_is_named_at_its_first_step(pool_of: Any) -> None:
    for first, second, plain in pool_of(2).run(own_steps.own_loop):
        assert "outside a step of all ranks" in first
        assert "`@tnt.function`" in first
        assert second == first
        assert plain == ""
