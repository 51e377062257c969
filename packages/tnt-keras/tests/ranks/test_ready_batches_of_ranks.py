"""Datasets without `batch`: their first dimension is the batch, as in serial Keras."""

from __future__ import annotations

from typing import Any

import pytest
import ready_batches
from test_features_equal_serial import assert_close


def _compare(pool_of: Any, size: int, kind: str, verify: bool = False) -> None:
    [expected] = pool_of(1).run(ready_batches.train, kind, False)
    for result in pool_of(size).run(ready_batches.train, kind, True, verify):
        for name, value in expected.items():
            assert_close(result[name], value, 1e-5, name)


OTHERS = [kind for kind in ready_batches.DATA if kind != "generator"]


@pytest.mark.parametrize(
    "kind",
    [
        "generator",
        # "shuffled" is verified below.
        *(pytest.param(kind, marks=pytest.mark.thorough) for kind in OTHERS),
    ],
)
def test_ready_batches_give_the_serial_results(kind: str, pool_of: Any) -> None:
    _compare(pool_of, 2, kind)


@pytest.mark.parametrize(
    ("size", "kind"),
    [
        *(pytest.param(3, kind, marks=pytest.mark.thorough) for kind in ("generator", *OTHERS)),
        (1, "slices of batches"),
        pytest.param(1, "generator", marks=pytest.mark.thorough),
    ],
)
def test_number_of_ranks_does_not_matter(size: int, kind: str, pool_of: Any) -> None:
    _compare(pool_of, size, kind)


@pytest.mark.thorough
def test_equal_ready_batches_are_verified(pool_of: Any) -> None:
    _compare(pool_of, 2, "shuffled", verify=True)


def test_single_samples_without_common_rows_are_refused_with_both_ways_out(pool_of: Any) -> None:
    for text in pool_of(2).run(ready_batches.single_samples, True, True):
        assert text.startswith("NotBatchedError: `x`"), text
        assert ".batch(n)" in text
        assert "tnt_micro_batch_size" in text


def test_single_samples_with_common_rows_get_the_error_of_keras(pool_of: Any) -> None:
    [expected] = pool_of(1).run(ready_batches.single_samples, False, False)
    kind = expected.partition(":")[0]
    assert "incompatible" in expected, expected
    for text in pool_of(2).run(ready_batches.single_samples, True, False):
        assert text.startswith(f"{kind}: "), text
        assert "incompatible" in text, text


def test_components_of_unequal_rows_get_the_error_of_keras(pool_of: Any) -> None:
    [expected] = pool_of(1).run(ready_batches.unequal_rows, False)
    kind = expected.partition(":")[0]
    assert kind == "InvalidArgumentError"
    for text in pool_of(2).run(ready_batches.unequal_rows, True):
        assert text.startswith(f"{kind}: "), text
