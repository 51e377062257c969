"""Steps that users write give the serial result."""

from __future__ import annotations

from typing import Any

import own_steps
import pytest
from test_own_methods import assert_equal_to_serial


@pytest.mark.parametrize(
    ("size", "run_eagerly"),
    [
        (2, False),
        *(pytest.param(*each, marks=pytest.mark.thorough) for each in ((3, False), (2, True))),
    ],
)
@pytest.mark.parametrize(
    "function",
    [
        own_steps.scale_of_another_optimizer,
        pytest.param(own_steps.loss_scale_of_another_optimizer, marks=pytest.mark.thorough),
        pytest.param(own_steps.one_optimizer_twice, marks=pytest.mark.thorough),
        own_steps.tensorflow_variables,
        own_steps.all_kinds_of_logs,
        own_steps.weights_clipped_in_the_step,
        own_steps.sharpness_aware,
    ],
    ids=lambda function: function.__name__,
)
def test_step_gives_the_serial_result(
    function: Any, size: int, run_eagerly: bool, pool_of: Any
) -> None:
    assert_equal_to_serial(function, size, pool_of, run_eagerly)


@pytest.mark.parametrize(
    "size", [2, *(pytest.param(size, marks=pytest.mark.thorough) for size in (1, 3))]
)
def test_eager_steps_may_look_at_values(size: int, pool_of: Any) -> None:
    assert_equal_to_serial(own_steps.numpy_in_eager_steps, size, pool_of)


def test_sums_of_large_integers_are_exact(pool_of: Any) -> None:
    assert_equal_to_serial(own_steps.sum_of_large_integers, 2, pool_of)


def test_fit_that_leaves_out_ours_is_named(pool_of: Any) -> None:
    for kind, text in pool_of(2).run(own_steps.error_of_fit_past_ours):
        assert kind == "RuntimeError"
        assert "by `super().fit(...)`" in text


def test_loop_of_ones_own_is_named_at_its_first_step(pool_of: Any) -> None:
    for first, second, plain in pool_of(2).run(own_steps.own_loop):
        assert "outside of a step of all ranks" in first
        assert "`@tnt.function`" in first
        assert second == first
        assert plain == ""
