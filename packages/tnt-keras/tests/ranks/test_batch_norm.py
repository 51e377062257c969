"""Synchronized batch normalisation gives the serial result, and fusing it changes nothing."""

from __future__ import annotations

from typing import Any

import batch_norms
import numpy as np
import pytest

IN_LONG_TAIL = {"channels first", "images", "features"}
"""Their short run is that of masked texts: the axes are others, the sums the same."""


def assert_close(actual: Any, expected: Any, bound: float = 1e-5) -> None:
    """Compare results of runs, entry by entry.

    A bias before such a layer has no gradient, so that it holds rounding errors alone: of gradients
    of the size of the others, hence the least scale.
    """
    for own, wanted in zip(actual["weights"], expected["weights"], strict=True):
        scale = np.max(np.abs(wanted), initial=0.1)
        np.testing.assert_allclose(own, wanted, rtol=0, atol=bound * scale)
    np.testing.assert_allclose(actual["predict"], expected["predict"], rtol=0, atol=bound)
    for logs in ("history", "evaluate"):
        assert actual[logs].keys() == expected[logs].keys()
        for key, wanted in expected[logs].items():
            np.testing.assert_allclose(actual[logs][key], wanted, rtol=bound, err_msg=key)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.thorough] if name in IN_LONG_TAIL else [])
        for name in batch_norms.SYNCHRONIZED
    ],
)
def test_synchronized_layers_give_the_serial_result(name: str, size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(batch_norms.trained, False, name)
    results = pool_of(size).run(batch_norms.trained, True, name)
    for result in results:
        assert_close(result, expected)
        for own, master in zip(result["weights"], results[0]["weights"], strict=True):
            np.testing.assert_array_equal(own, master)


def _eager(distributed: bool) -> Any:
    return batch_norms.trained(distributed, "features", run_eagerly=True)


@pytest.mark.thorough
def test_synchronized_layers_give_the_serial_result_in_eager_steps(pool_of: Any) -> None:
    [expected] = pool_of(1).run(_eager, False)
    for result in pool_of(2).run(_eager, True):
        assert_close(result, expected)


def test_a_gradient_penalty_through_synchronized_layers_gives_the_serial_result(
    pool_of: Any,
) -> None:
    [expected] = pool_of(1).run(batch_norms.with_penalised_gradients, False)
    for result in pool_of(2).run(batch_norms.with_penalised_gradients, True):
        np.testing.assert_allclose(result["loss"], expected["loss"], rtol=1e-4)
        for own, wanted in zip(result["weights"], expected["weights"], strict=True):
            np.testing.assert_allclose(own, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.thorough
def test_fused_layers_of_ranks_give_what_those_of_keras_give(pool_of: Any) -> None:
    fused = pool_of(2).run(batch_norms.trained, True, "local", True)
    unfused = pool_of(2).run(batch_norms.trained, True, "local", False)
    for of_fused, of_unfused in zip(fused, unfused, strict=True):
        assert_close(of_fused, of_unfused)
