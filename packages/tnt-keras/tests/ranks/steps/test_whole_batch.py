"""`gather_batch`, `batch_sum` and `batch_mean` see the rows of the batch in the serial order.

Steps and models with them are among the trainings of model_catalogue.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import whole_batch
from cases import cases
from whole_batch import DTYPES

EXECUTION = cases("run_eagerly", [False], thorough=[True])


@EXECUTION
@cases("size", [2], thorough=(1, 3))
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
    counts = [[3, 1], [1, 4]]
    for steps in pool_of(2).run(whole_batch.rows_in_order, run_eagerly, counts):
        assert len(steps) == 2
        for step, seen in enumerate(steps):
            rows = [
                (10.0 * index + rank, step)
                for index in range(4)
                for rank in range(2)
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
