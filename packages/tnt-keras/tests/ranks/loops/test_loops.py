"""Training loops of the user's own give the serial result, or stop with the cause."""

from __future__ import annotations

import pathlib
from typing import Any

import loop_mistakes
import numpy as np
import step_functions
from cases import cases
from serial_results import assert_serial


@cases("size", [2], thorough=(1, 3))
@cases(
    ("function", "arguments"),
    [(step_functions.all_kinds_of_arguments, []), (step_functions.variable_of_its_own, [])],
    thorough=[
        (step_functions.sums_and_branches, [False]),
        (step_functions.sums_and_branches, [True]),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_step_function_gives_the_serial_result(
    function: Any, arguments: list[bool], size: int, pool_of: Any
) -> None:
    assert_serial(function, pool_of, *arguments, size=size)


def test_files_that_all_ranks_write_of_plain_models_are_whole(
    pool_of: Any, tmp_path: pathlib.Path
) -> None:
    for found in pool_of(2).run(step_functions.files, str(tmp_path)):
        for weights in found["weights"]:
            for one, expected in zip(weights, found["expected"], strict=True):
                np.testing.assert_array_equal(one, expected)
        of_plain = found["plain description"]
        assert found["description"]["class_name"] == of_plain["class_name"]
        assert found["description"]["module"] == of_plain["module"]


def test_mistakes_in_calls_are_named(pool_of: Any) -> None:
    expected = {
        "changed part": "Pass the elements as they are",
        "other batches": "Pass `train_step` the same arguments on all ranks",
        "other scalars": "Ranks have read different data",
        "other constants": "rank 0 has quotient = False, and rank 1 has quotient = True",
        "inside of a graph": "was called inside a `tf.function`",
        "loop inside of a graph": "`tnt.data.distribute(dataset)` is inside a `tf.function`",
        "dataset": "`tnt.data.distribute` takes a `tf.data.Dataset`",
    }
    for found in pool_of(2).run(loop_mistakes.mistakes):
        for name, text in expected.items():
            assert text in found[name], name
        assert "verify_inputs" not in found["other batches"]
        assert found["right"] == ""


def test_weights_that_one_rank_changes_between_steps_are_named(pool_of: Any) -> None:
    for of_function, of_batch in pool_of(2).run(loop_mistakes.changed_by_one_rank):
        for error in (of_function, of_batch):
            assert "is not the same on all ranks: ranks [1] differ from rank 0" in error


def test_loop_without_a_step_function_is_named_at_its_first_step(pool_of: Any) -> None:
    for over_parts, over_all in pool_of(2).run(loop_mistakes.loop_without_function):
        assert over_parts.startswith("RuntimeError: loop_mistakes.py:")
        assert "while an iterator of `tnt.data.distribute(...)` is in use" in over_parts
        assert "`@tnt.function`" in over_parts
        assert over_all == ""


def test_elements_of_a_distributed_dataset_are_the_rows_of_each_rank(pool_of: Any) -> None:
    samples = list(range(7))
    for rank, found in enumerate(pool_of(3).run(step_functions.parts_of_a_dataset)):
        batches = [samples[begin : begin + 3][rank::3] or [6] for begin in (0, 3, 6)]
        one_pass = [(batch, [2 * i for i in batch]) for batch in batches]
        assert found == {"passes": [one_pass] * 2, "length": 3, "spec": True}
