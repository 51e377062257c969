"""Features of Keras' training give on several ranks what they give in serial Keras."""

from __future__ import annotations

from typing import Any

import features
import losses_and_metrics
import numpy as np
import optimizer_options
import pytest
import subclassed_models

SIZE = 2
"""Of the short run. The last batch has a single sample, so that a rank has none."""

of_all_sizes = pytest.mark.parametrize("size", [SIZE, pytest.param(3, marks=pytest.mark.thorough)])


def assert_equal_results(
    function: Any, pool_of: Any, *arguments: Any, bound: float = 1e-5, size: int = SIZE
) -> None:
    [expected] = pool_of(1).run(function, False, *arguments)
    results = pool_of(size).run(function, True, *arguments)
    for result in results:
        assert result.keys() == expected.keys()
        for name, value in expected.items():
            assert_close(result[name], value, bound, name)
        for own, master in zip(result["weights"], results[0]["weights"], strict=True):
            np.testing.assert_array_equal(own, master)


def assert_close(actual: Any, expected: Any, bound: float, name: str) -> None:
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            assert_close(actual[key], value, bound, f"{name}/{key}")
    elif isinstance(expected, list) and expected and isinstance(expected[0], np.ndarray):
        for index, value in enumerate(expected):
            assert_close(actual[index], value, bound, f"{name}[{index}]")
    else:
        scale = np.max(np.abs(expected), initial=1e-3)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=bound * scale, err_msg=name)


@pytest.mark.thorough  # with each reduction in test_training_table
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "sum_over_batch_size", "sum"])
def test_sample_weights_count_as_in_serial(reduction: str, size: int, pool_of: Any) -> None:
    assert_equal_results(losses_and_metrics.sample_weights, pool_of, reduction, size=size)


@of_all_sizes
@pytest.mark.parametrize(
    "function",
    [
        pytest.param(each, marks=[pytest.mark.thorough] if each in features.SHOWN_ELSEWHERE else [])
        for each in features.WITHOUT_ARGUMENTS
    ],
    ids=lambda function: function.__name__,
)
def test_feature_gives_the_serial_result(function: Any, size: int, pool_of: Any) -> None:
    assert_equal_results(function, pool_of, size=size)


@pytest.mark.thorough  # several steps in an execution also in test_gradient_accumulation
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    "arguments", [{"run_eagerly": True}, {"steps_per_execution": 3}, {}], ids=str
)
def test_way_of_execution_does_not_change_results(
    arguments: dict[str, Any], size: int, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(_execution, False, arguments)
    results = pool_of(size).run(_execution, True, arguments)
    for result in results:
        for name, value in expected.items():
            assert_close(result[name], value, 1e-4, name)


def _execution(distributed: bool, arguments: dict[str, Any]) -> dict[str, Any]:
    return optimizer_options.execution(distributed, **arguments)


@of_all_sizes
def test_float16_gradients_are_reduced_before_they_are_unscaled(size: int, pool_of: Any) -> None:
    # float16 has 11 bits: results agree to about 1e-3.
    assert_equal_results(optimizer_options.loss_scaling, pool_of, bound=5e-3, size=size)


@of_all_sizes
@pytest.mark.parametrize("gradients_first", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_every_optimizer_of_a_step_sees_the_gradients_of_all_ranks(
    gradients_first: bool, size: int, pool_of: Any
) -> None:
    assert_equal_results(subclassed_models.two_optimizers, pool_of, gradients_first, size=size)


@pytest.mark.thorough  # other steps are in test_own_steps
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("is_function", [False, True], ids=["plain", "tf.function"])
def test_own_step_gives_the_serial_result(is_function: bool, size: int, pool_of: Any) -> None:
    assert_equal_results(subclassed_models.own_step, pool_of, is_function, size=size)
