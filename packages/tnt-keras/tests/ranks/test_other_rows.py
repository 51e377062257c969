"""Batches with parts that have no row for each sample give the serial training."""

from __future__ import annotations

from typing import Any

import numpy as np
import other_rows
import pytest
from rank_pools import ENVIRONMENT
from serial_results import assert_serial

from tnt_comm.testing import observe_ranks

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
    assert_serial(results, expected, bound=2e-5)
    for result in results:
        assert_close(result["predict"], expected["predict"])
        # One for the full batches, one for the last.
        assert result["partitions"] == {"train": 2, "test": 2, "predict": 2}


def test_single_batches_give_the_serial_losses_and_predictions(pool_of: Any) -> None:
    [expected] = pool_of(1).run(other_rows.on_batches, False)
    for result in pool_of(2).run(other_rows.on_batches, True):
        for actual, wanted in zip(result, expected, strict=True):
            assert_close(actual, wanted)


def test_texts_ragged_and_sparse_rows_are_predicted(pool_of: Any) -> None:
    [expected] = pool_of(1).run(other_rows.described, False)
    for result in pool_of(3).run(other_rows.described, True):
        assert result == expected


def test_parts_that_each_rank_reads_are_named_once(pool_of: Any) -> None:
    for texts in pool_of(2).run(other_rows.warnings_of_graphs):
        [text] = texts
        for part in ("int64 (None, 2)", "float32 (None, 3)", "int64 (None,)"):
            assert part in text


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        ("arrays", "same number of samples. Received: x: "),
        ("PyDataset", "x[edges] has others than the targets"),
        pytest.param(
            "generator", "x[edges] has others than the targets", marks=pytest.mark.thorough
        ),
        ("own", "let ranks share the batches of one dataset"),
    ],
)
def test_other_inputs_need_a_row_for_each_sample(mistake: str, words: str, preloaded: Any) -> None:
    for report in observe_ranks(
        other_rows.error_of, 2, mistake, env=ENVIRONMENT, timeout_s=120, preloaded=preloaded
    ):
        assert words in report.value, report.value
