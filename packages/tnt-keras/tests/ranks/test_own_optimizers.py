"""Whoever made an optimizer, and for how many models: it sees the gradients of all ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import own_optimizers
import pytest


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "function",
    [
        own_optimizers.made_in_the_step,
        own_optimizers.applied_twice,
        own_optimizers.shared_by_two_models,
        pytest.param(own_optimizers.shared_with_a_loss_scale, marks=pytest.mark.thorough),
    ],
    ids=lambda function: function.__name__,
)
def test_optimizer_gives_the_serial_result(function: Any, size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(function, False)
    results = pool_of(size).run(function, True)
    for result in results:
        assert result.get("iterations") == expected.get("iterations")
        for actual, own, wanted in zip(
            result["weights"], results[0]["weights"], expected["weights"], strict=True
        ):
            np.testing.assert_allclose(actual, wanted, rtol=0, atol=1e-5)
            np.testing.assert_array_equal(actual, own)
