"""Losses, reductions, masks, weights, optimizers and splits in combination are those of serial."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Sequence
from typing import Any

import keras
import pytest
import training_table
from serial_comparison import joined
from training_table import FACTORS, FAILING, LOSSES, OPTIMIZERS, TableRow, is_possible

ROWS_OF_A_CALL = 12

OF_ALL_PAIRS = {"Circle"}
"""Losses that compare all samples of a batch: refused, or an example with gathered rows."""


def _assert_serial(rows: Sequence[TableRow], size: int, pool_of: Any) -> None:
    results = joined(pool_of(size).run(training_table.train_and_compare, rows))
    others = {
        row.name: result
        for row, result in zip(rows, results, strict=True)
        if result.status != "exact"
    }
    assert not others


def _calls(rows: Sequence[TableRow]) -> list[list[TableRow]]:
    starts = range(0, len(rows), ROWS_OF_A_CALL)
    return [list(rows[start : start + ROWS_OF_A_CALL]) for start in starts]


def _classes_of(module: Any, base: type) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    }


def test_each_reduction_kind_of_values_weights_and_split_trains_as_in_serial(pool_of: Any) -> None:
    rows = training_table.shortest_table()
    assert len(rows) <= 4
    _assert_serial(rows, 2, pool_of)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("part", range(len(_calls(training_table.whole_table()))))
def test_all_that_may_interact_trains_as_in_serial(part: int, size: int, pool_of: Any) -> None:
    _assert_serial(_calls(training_table.whole_table())[part], size, pool_of)


def test_a_loss_without_reduction_trains_as_in_serial(pool_of: Any) -> None:
    _assert_serial(training_table.unreduced(["MeanSquaredError", "Dice"]), 2, pool_of)


@pytest.mark.thorough
@pytest.mark.parametrize("part", range(len(_calls(training_table.unreduced([*LOSSES])))))
def test_every_loss_without_reduction_trains_as_in_serial(part: int, pool_of: Any) -> None:
    _assert_serial(_calls(training_table.unreduced([*LOSSES]))[part], 2, pool_of)


def test_the_table_has_every_loss_and_optimizer_of_keras() -> None:
    known = {name.partition("(")[0] for name in (*LOSSES, *OPTIMIZERS)} | OF_ALL_PAIRS | FAILING
    of_keras = _classes_of(keras.losses, keras.losses.Loss)
    of_keras |= _classes_of(keras.optimizers, keras.optimizers.Optimizer)
    assert of_keras <= known


def test_the_table_has_all_combinations_of_factors_that_may_interact() -> None:
    rows = [vars(row) for row in training_table.whole_table()]
    for names in training_table.INTERACTING:
        present = {tuple(row[name] for name in names) for row in rows}
        for values in itertools.product(*(FACTORS[name] for name in names)):
            if is_possible(dict(zip(names, values, strict=True))):
                assert values in present
    assert all(map(is_possible, rows))
    assert len(rows) < 150
