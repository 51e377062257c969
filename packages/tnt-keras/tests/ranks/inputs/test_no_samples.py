"""A call that is given no samples ends as that of plain Keras ends."""

from __future__ import annotations

from typing import Any

import no_samples
from cases import cases
from serial_results import assert_serial

METHODS = ["fit", "evaluate", "predict"]
OTHERS = [name for name in no_samples.CALLS if name not in (*METHODS, "fit in steps", "validation")]


@cases(
    ("size", "inputs", "calls"),
    [(2, ["arrays"], ["fit", "validation", "predict"]), (3, ["less than a batch"], ["fit"])],
    thorough=[
        (1, ["arrays", "dataset of open length"], METHODS),
        (2, ["dataset", "dataset of Python", "dataset of open length"], ["fit"]),
        (2, ["less than a batch"], OTHERS),
        (3, ["arrays"], [*METHODS, "fit in steps"]),
    ],
)
def test_no_samples_end_as_in_keras(
    size: int, inputs: list[str], calls: list[str], pool_of: Any
) -> None:
    assert_serial(no_samples.ends, pool_of, "classifier", inputs, calls, size=size)


@cases("model", ["not built"], thorough=["several steps", "eager"])
def test_no_samples_end_as_in_keras_for_any_model(model: str, pool_of: Any) -> None:
    assert_serial(no_samples.ends, pool_of, model, ["dataset of open length"], ["fit", "evaluate"])


def test_one_rank_without_samples_is_an_error_on_all(pool_of: Any) -> None:
    without, others = pool_of(2).run(no_samples.one_rank_without)
    assert "Rank 0 has no more data, but ranks [1] continue" in without
    assert "Ranks without data: 0" in others


def test_steps_of_arrays_without_rows_give_no_batch_size(pool_of: Any) -> None:
    [error] = pool_of(1).run(no_samples.steps_of_arrays)
    assert "`validation_data` has no samples" in error
    assert "validation_steps=2 determines no batch size" in error
