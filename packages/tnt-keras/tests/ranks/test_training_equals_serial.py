"""Training on n ranks gives the weights, histories and predictions of serial Keras."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest
from cases import Case
from rank_pools import ENVIRONMENT

from tnt_comm.testing import run_ranks

# Rounding: a gradient is a sum of up to `batch_size` terms, taken in another order on n ranks, so
# that it differs by a few units in the last place (1.2e-7). SGD adds such gradients up: the
# difference stays of that size, relative to the largest weight.
SGD_BOUND = 1e-5
# Adam divides the gradient's mean by its root mean square, so that its steps have about the size of
# the learning rate, 1e-3, however small the gradient. Where a gradient is itself the difference of
# larger terms, down to rounding, the relative error of its *step* can be far greater. After 15
# steps of 1e-3 the bound allows an error of one percent of one step.
ADAM_BOUND = 1e-5

EVEN = {"num_samples": 48, "batch_size": 12}
# Batches of 13 samples divide by none of 2, 3, 4; the last one has 2, fewer than 3 or 4 ranks.
UNEVEN = {"num_samples": 54, "batch_size": 13}
SIZES = {"even": EVEN, "uneven": UNEVEN}


@functools.cache
def _serial_results() -> dict[Case, Any]:
    return {}


def _serial(case: Case, pool_of: Any) -> Any:
    results = _serial_results()
    if case not in results:
        results[case] = pool_of(1).run(cases.run, case, False)[0]
    return results[case]


def _parallel(case: Case, size: int, pool_of: Any, preloaded: Any) -> Any:
    if size <= 3:
        return pool_of(size).run(cases.run, case, True)
    # No other test needs so many ranks: to fork them is quicker than to start a pool.
    return run_ranks(cases.run, size, case, True, env=ENVIRONMENT, preloaded=preloaded)


def _assert_close(actual: Any, expected: Any, bound: float) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    scale = np.max(np.abs(expected), initial=1e-3)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=bound * scale)


SHORT = {(3, "dense", "adam", "uneven")}
"""Combination of the short run: networks with convolutions train in models/ on two ranks."""


def _combinations() -> Iterator[Any]:
    for combination in itertools.product(
        [1, 2, 3, 4], ["dense", "cnn", "sequence"], ["sgd", "adam"], ["even", "uneven"]
    ):
        *others, sizes = combination
        marks = [] if combination in SHORT else [pytest.mark.thorough]
        name = "-".join(map(str, combination))
        yield pytest.param(*others, SIZES[sizes], id=name, marks=marks)


@pytest.mark.parametrize(("size", "model", "optimizer", "sizes"), list(_combinations()))
def test_results_equal_serial_keras(
    size: int,
    model: str,
    optimizer: str,
    sizes: dict[str, int],
    pool_of: Any,
    preloaded: Any,
) -> None:
    case = Case(model, optimizer, **sizes)
    expected = _serial(case, pool_of)
    results = _parallel(case, size, pool_of, preloaded)

    bound = SGD_BOUND if optimizer == "sgd" else ADAM_BOUND
    for result in results:
        for own, master in zip(result["weights"], results[0]["weights"], strict=True):
            np.testing.assert_array_equal(own, master)
        assert result["history"] == results[0]["history"]
        np.testing.assert_array_equal(result["predict"], results[0]["predict"])

    for actual, wanted in zip(results[0]["weights"], expected["weights"], strict=True):
        _assert_close(actual, wanted, bound)
    assert results[0]["history"].keys() == expected["history"].keys()
    for name, values in expected["history"].items():
        _assert_close(results[0]["history"][name], values, bound)
    _assert_close(results[0]["evaluate"], expected["evaluate"], bound)
    assert results[0]["predict"].shape == expected["predict"].shape
    _assert_close(results[0]["predict"], expected["predict"], bound)
