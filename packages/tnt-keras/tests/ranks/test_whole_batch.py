"""What `gather_batch`, `batch_sum` and `batch_mean` make of a step is what the serial step is."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import whole_batch
from serial_results import assert_serial
from whole_batch import DTYPES

SHORT = {"MaskedQuotient", "OtherRows", "InLoop", "InBranch", "GradientPenalty"}
"""Own steps of the short run; rows are gathered in that of a compiled model, too."""


def assert_trains_as_serially(
    pool_of: Any, size: int, function: Any, *arguments: Any, bound: float
) -> None:
    [expected] = pool_of(1).run(function, False, *arguments)
    assert_serial(pool_of(size).run(function, True, *arguments), expected, bound)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name in SHORT else [pytest.mark.thorough])
        for name in whole_batch.OWN_STEPS
    ],
)
def test_own_step_gives_the_serial_result(name: str, size: int, pool_of: Any) -> None:
    assert_trains_as_serially(pool_of, size, whole_batch.own_step, name, bound=2e-5)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "function",
    [
        whole_batch.compiled_in_batch_negatives,
        pytest.param(whole_batch.compiled_nt_xent, marks=pytest.mark.thorough),
        pytest.param(whole_batch.compiled_rmse, marks=pytest.mark.thorough),
        pytest.param(whole_batch.mixture_of_experts, marks=pytest.mark.thorough),
        pytest.param(whole_batch.codebook, marks=pytest.mark.thorough),
        pytest.param(whole_batch.functional, marks=pytest.mark.thorough),
    ],
    ids=lambda function: function.__name__,
)
def test_compiled_model_gives_the_serial_result(function: Any, size: int, pool_of: Any) -> None:
    assert_trains_as_serially(pool_of, size, function, bound=2e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("scales_loss", [False, True])
def test_gradients_that_are_added_up_give_the_serial_result(
    scales_loss: bool, pool_of: Any
) -> None:
    assert_trains_as_serially(pool_of, 2, whole_batch.summed, scales_loss, bound=2e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("arguments", [{"run_eagerly": True}, {"steps_per_execution": 2}], ids=str)
def test_way_of_execution_does_not_change_results(arguments: Any, pool_of: Any) -> None:
    assert_trains_as_serially(pool_of, 2, _contrastive, arguments, bound=2e-5)


def _contrastive(distributed: bool, arguments: Any) -> Any:
    return whole_batch.own_step(distributed, "Contrastive", True, **arguments)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["OtherRows", "InLoop", "InBranch", "GradientPenalty"])
def test_own_step_that_is_run_eagerly_gives_the_serial_result(name: str, pool_of: Any) -> None:
    assert_trains_as_serially(pool_of, 2, _eagerly, name, bound=2e-5)


def _eagerly(distributed: bool, name: str) -> Any:
    return whole_batch.own_step(distributed, name, run_eagerly=True)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(("policy", "bound"), [("mixed_float16", 1e-2), ("mixed_bfloat16", 8e-2)])
def test_half_precision_differs_by_its_rounding(
    policy: str, bound: float, size: int, pool_of: Any
) -> None:
    assert_trains_as_serially(pool_of, size, whole_batch.half_precision, policy, bound=bound)


EXECUTION = pytest.mark.parametrize(
    "run_eagerly", [False, pytest.param(True, marks=pytest.mark.thorough)]
)


@EXECUTION
@pytest.mark.parametrize(
    "size", [*(pytest.param(size, marks=pytest.mark.thorough) for size in (1, 2)), 3]
)
def test_rows_come_in_serial_order_on_every_rank(
    size: int, run_eagerly: bool, pool_of: Any
) -> None:
    x = np.arange(44, dtype="float32").reshape(22, 2)
    for steps in pool_of(size).run(whole_batch.rows_in_order, run_eagerly):
        assert len(steps) == 4
        for step, seen in enumerate(steps):
            _check_step(seen, x[7 * step : 7 * step + 7])


@EXECUTION
def test_rows_that_ranks_share_themselves_are_ordered_by_their_index(
    run_eagerly: bool, pool_of: Any
) -> None:
    counts = [[3, 1], [1, 4], [2, 2]]
    for steps in pool_of(3).run(whole_batch.rows_in_order, run_eagerly, counts):
        assert len(steps) == 2
        for step, seen in enumerate(steps):
            rows = [
                (10.0 * index + rank, step)
                for index in range(4)
                for rank in range(3)
                if index < counts[rank][step]
            ]
            _check_step(seen, np.array(rows, "float32"))


def _check_step(seen: dict[str, Any], batch: np.ndarray) -> None:
    for dtype in DTYPES:
        rows, total, mean = (seen[f"{name}, {dtype}"] for name in ("rows", "sum", "mean"))
        assert rows.dtype.name == dtype
        assert total.dtype.name == ("int32" if dtype == "bool" else dtype)
        np.testing.assert_array_equal(rows, batch.astype(dtype))
        small = (batch % 3).astype(dtype).astype("float64")
        np.testing.assert_array_equal(total.astype("float64"), small.sum(axis=0))
        bound = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype, 1e-6)
        np.testing.assert_allclose(mean.astype("float64"), small.mean(axis=0), rtol=bound)
    np.testing.assert_array_equal(seen["pairs"], np.repeat(batch, 2, axis=0))
    np.testing.assert_array_equal(seen["no weights"], [0.0, 0.0])
    weights = batch[:, :1].astype("float64")
    expected = (batch * weights).sum(axis=0) / max(weights.sum(), 1e-30)
    np.testing.assert_allclose(seen["weighted"], expected, rtol=1e-5)


EXPECTED = {
    "scalar": r"ValueError: .*`tnt\.batch_mean` takes rows.* Received: a scalar",
    "text": r"TypeError: .*`tnt\.gather_batch` takes numbers or booleans\. Received: dtype string",
    "ragged": r"TypeError: .*`tnt\.batch_sum` takes dense tensors\. Received: RaggedTensor",
    "weights": r"ValueError: .*must not have more dimensions than `x`\. Received: 2 and 1",
}


def test_wrong_uses_are_errors_that_say_why(pool_of: Any) -> None:
    for errors in pool_of(2).run(whole_batch.errors_of_all):
        assert errors.keys() == EXPECTED.keys()
        for name, error in errors.items():
            assert re.match(EXPECTED[name], error, re.DOTALL), (name, error)
