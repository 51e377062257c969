"""Trainings of the kinds that Keras' examples and guides show are those of serial Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras_examples
import pytest
from keras_examples import EXAMPLES, Example
from run_command import ROOT
from serial_comparison import joined

EXAMPLES_OF_A_CALL = 2
"""So few that a call ends in time on a slow machine."""

PAGE = ROOT / "docs/reference/keras_examples.md"


def _assert_serial(names: Sequence[str], size: int, pool_of: Any) -> None:
    run = keras_examples.train_and_compare
    results = joined(pool_of(size).run(run, names))
    others = {
        name: result
        for name, result in zip(names, results, strict=True)
        if result.status != "exact"
    }
    assert not others


def _calls(names: Sequence[str]) -> list[Any]:
    starts = range(0, len(names), EXAMPLES_OF_A_CALL)
    parts = [list(names[start : start + EXAMPLES_OF_A_CALL]) for start in starts]
    return [pytest.param(part, id=f"from {part[0]}") for part in parts]


@pytest.mark.thorough  # steps like theirs are in test_loops, test_own_steps and unit/partition
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("names", _calls([*EXAMPLES]))
def test_all_examples_train_as_in_serial(names: list[str], size: int, pool_of: Any) -> None:
    _assert_serial(names, size, pool_of)


def test_at_most_three_lines_of_an_example_are_changed() -> None:
    assert len(EXAMPLES) >= 32
    assert all(len(example.changed_lines) <= 3 for example in EXAMPLES.values())
    assert any(example.changed_lines for example in EXAMPLES.values())


def test_the_page_of_examples_has_each_of_them_with_its_changed_lines() -> None:
    page = PAGE.read_text("utf-8").splitlines()
    begin = page.index("| --- | --- | --- |") + 1
    rows = [line for line in page[begin:] if line.startswith("|")]
    assert rows == [_row(example) for example in EXAMPLES.values()]


def _row(example: Example) -> str:
    changed = "<br>".join(f"`{line}`" for line in example.changed_lines)
    return f"| {example.topic} | {example.kind} | {changed or 'unchanged'} |"
