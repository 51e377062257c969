"""Ranks with two lanes each are given the rows of these, lane after lane, of any input."""

from __future__ import annotations

from typing import Any

import numpy as np
import rows_of_lanes
from rows_of_lanes import BATCH_SIZE, NUM_SAMPLES

from tnt_comm.testing import run_ranks

LANES, SIZE = 4, 2
SAMPLES = np.arange(NUM_SAMPLES, dtype="float32").tolist()


def _run(function: Any, preloaded: Any, size: int = SIZE) -> list[Any]:
    return run_ranks(function, size, env={"TNT_LANES": str(LANES)}, preloaded=preloaded)


def _own(batch: list[float], rank: int) -> list[float]:
    return batch[2 * rank :: LANES] + batch[2 * rank + 1 :: LANES]


def _rows(batch: list[float], rank: int) -> list[float]:
    return _own(batch, rank) or batch[:1]


def _batches(samples: list[float]) -> list[list[float]]:
    return [samples[begin : begin + BATCH_SIZE] for begin in range(0, NUM_SAMPLES, BATCH_SIZE)]


def test_rows_of_every_kind_of_input_are_those_of_the_lanes(preloaded: Any) -> None:
    for rank, seen in enumerate(_run(rows_of_lanes.rows_of_rank, preloaded)):
        for name, steps in seen.items():
            assert steps == [
                (_rows(batch, rank), len(_own(batch, rank)), len(batch))
                for batch in _batches(SAMPLES)
            ], name


def test_arrays_are_shuffled_as_on_one_rank_which_has_whole_batches(preloaded: Any) -> None:
    function = rows_of_lanes.rows_of_shuffled_arrays
    [serial] = _run(function, preloaded, size=1)
    assert sorted(row for batch in serial for row in batch) == SAMPLES
    for rank, steps in enumerate(_run(function, preloaded)):
        assert steps == [_rows(batch, rank) for batch in serial]


def test_loop_over_a_dataset_is_given_the_rows_of_the_lanes(preloaded: Any) -> None:
    for rank, steps in enumerate(_run(rows_of_lanes.rows_of_a_loop, preloaded)):
        assert steps == [_rows(batch, rank) for batch in _batches(SAMPLES)]
