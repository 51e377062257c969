"""Batches with parts that have no row for each sample give the serial training."""

from __future__ import annotations

from typing import Any

import other_rows
from cases import cases
from rank_pools import ENVIRONMENT
from serial_results import assert_serial, of_all_sizes

from tnt_comm.testing import observe_ranks

BOUND = 2e-5


@of_all_sizes
@cases("case", ["graphs"], thorough=other_rows.CASES)  # ragged rows are in test_read_by_master
def test_training_and_predictions_are_the_serial_ones(case: str, size: int, pool_of: Any) -> None:
    for result in assert_serial(other_rows.train, pool_of, case, size=size, bound=BOUND):
        for name in ("train", "test", "predict"):  # one for the full batches, one for the last
            assert result[f"partitions of {name}"] == 2
        if case == "graphs":
            [text] = result["warnings"]  # once for both calls of `fit`
            for part in ("int64 (None, 2)", "float32 (None, 3)", "int64 (None,)"):
                assert part in text


def test_texts_ragged_and_sparse_rows_are_predicted(pool_of: Any) -> None:
    [expected] = pool_of(1).run(other_rows.described, False)
    for result in pool_of(2).run(other_rows.described, True):
        assert result == expected


@cases(
    ("mistake", "words"),
    [
        ("arrays", "same number of samples. Received: x: "),
        ("PyDataset", "x[edges] has a different number than the targets"),
        ("own", "let ranks share the batches of one dataset"),
    ],
    thorough=[("generator", "x[edges] has a different number than the targets")],
)
def test_other_inputs_need_a_row_for_each_sample(mistake: str, words: str, preloaded: Any) -> None:
    for report in observe_ranks(
        other_rows.error_of, 2, mistake, env=ENVIRONMENT, timeout_s=120, preloaded=preloaded
    ):
        assert words in report.value, report.value
