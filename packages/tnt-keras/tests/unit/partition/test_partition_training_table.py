"""Losses, reductions, masks, weights, optimizers and splits in combination are those of serial."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import pytest
import training_table
from cases import cases
from packaging.version import Version
from step_replicas import usual_replicas
from training_table import FAILING, LOSSES, OPTIMIZERS, TableRow
from unseen.comparison import deviations, in_numbers_of_replicas, serially

# The models are written as others write theirs, and warn as theirs do.
pytestmark = pytest.mark.filterwarnings("ignore")

OF_ALL_PAIRS = {"Circle"}
"""Losses that compare all samples of a batch: among the trainings of the catalogue."""

ROWS = training_table.table()
SHORT = frozenset({18, 24, 36, 65, 107})
"""Rows of the short run, in which each reduction, weight, kind of values and split occurs.

They have optimizers of few operations: others are in the catalogue.
"""


@cases(
    "row",
    [pytest.param(row, id=row.case().name) for i, row in enumerate(ROWS) if i in SHORT],
    thorough=[pytest.param(row, id=row.case().name) for i, row in enumerate(ROWS)],
)
def test_a_row_of_the_table_trains_in_replicas_as_in_plain_keras(row: TableRow) -> None:
    case = row.case()
    expected = serially(case)
    for replicas, values, _ in in_numbers_of_replicas(case, usual_replicas()):
        apart = deviations(values, expected)
        assert {k: v for k, v in apart.items() if v > case.rtol} == {}, f"in {replicas} replicas"


@pytest.mark.skipif(
    Version(keras.__version__) < Version("3.15"), reason="the table has other rows with older Keras"
)
@pytest.mark.parametrize("factor", ["reduction", "weights", "values", "split"])
def test_the_short_run_has_each_value_of(factor: str) -> None:
    assert {getattr(ROWS[i], factor) for i in SHORT} == {getattr(row, factor) for row in ROWS}


def test_the_table_has_every_loss_and_optimizer_of_keras() -> None:
    known = {name.partition("(")[0] for name in (*LOSSES, *OPTIMIZERS)} | OF_ALL_PAIRS | FAILING
    of_keras = _classes_of(keras.losses, keras.losses.Loss)
    of_keras |= _classes_of(keras.optimizers, keras.optimizers.Optimizer)
    assert of_keras <= known
    assert {row.optimizer for row in ROWS} == {*OPTIMIZERS}


def _classes_of(module: Any, base: type) -> set[str]:
    return {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, base) and value is not base
    }
