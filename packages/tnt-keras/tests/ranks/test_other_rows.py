"""Batches with parts that have no row for each sample give the serial training."""

from __future__ import annotations

from typing import Any

import numpy as np
import other_rows
import pytest

SHORT = {"bags of words", "graphs"}


def assert_close(actual: Any, expected: Any) -> None:
    scale = np.max(np.abs(expected), initial=1e-2)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * scale)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[] if case in SHORT else [pytest.mark.thorough])
        for case in other_rows.CASES
    ],
)
def test_training_and_predictions_are_the_serial_ones(case: str, size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(other_rows.train, case, False)
    results = pool_of(size).run(other_rows.train, case, True)
    for result in results:
        for actual, wanted, of_first in zip(
            result["weights"], expected["weights"], results[0]["weights"], strict=True
        ):
            assert_close(actual, wanted)
            np.testing.assert_array_equal(actual, of_first)
        for logs in ("history", "evaluate"):
            assert result[logs].keys() == expected[logs].keys()
            for key, wanted in expected[logs].items():
                assert_close(result[logs][key], wanted)
        assert_close(result["predict"], expected["predict"])
        # One for the full batches, one for the last.
        assert result["partitions"] == {"train": 2, "test": 2, "predict": 2}
