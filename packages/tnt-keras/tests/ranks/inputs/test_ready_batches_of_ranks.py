"""Datasets without `batch`: their first dimension is the batch, as in serial Keras."""

from __future__ import annotations

from typing import Any

import ready_batches
from cases import cases
from serial_results import assert_serial


@cases(
    ("size", "kind"),
    [(2, "generator"), (1, "slices of batches")],
    thorough=[
        *((size, kind) for size, kind in ((2, "from_tensors"), (2, "records"), (2, "shuffled"))),
        *((3, kind) for kind in ("generator", "slices of batches", "without end")),
    ],
)
def test_ready_batches_give_the_serial_results(size: int, kind: str, pool_of: Any) -> None:
    assert_serial(ready_batches.train, pool_of, kind, size=size)


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
