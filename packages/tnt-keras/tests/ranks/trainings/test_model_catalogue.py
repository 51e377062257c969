"""Whole trainings of models of all kinds are those of serial Keras."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

import model_catalogue
import pytest
from cases import cases
from model_catalogue import CASES, Case
from serial_comparison import Result, joined

CASES_OF_A_CALL = 8

SHORT = {
    2: [
        "contrast_of_gathered_views",
        "loss_scaling_with_skipped_steps",
        "sums_and_rows_of_the_batch_in_a_model_that_was_saved",
    ],
    3: [
        "circle_loss",
        "largest_feature_so_far",
        "perplexity_of_a_running_loss",
        "sharpness_aware_minimisation",
    ],
}
"""Cases of the short run, by number of ranks."""


@pytest.fixture(scope="module")
def counts(request: Any) -> Iterator[collections.Counter[str]]:
    """Counts how trainings ended, and shows it when all are done."""
    of_kinds: collections.Counter[str] = collections.Counter()
    yield of_kinds
    terminal = request.config.pluginmanager.get_plugin("terminalreporter")
    for kind, count in sorted(of_kinds.items()):
        terminal.write_line(f"\n{kind}: {count}", flush=True)


def _results(
    pool_of: Any, size: int, cases: Sequence[Case], policy: str | None = None
) -> list[Result]:
    return joined(pool_of(size).run(model_catalogue.train_and_compare, cases, policy))


def _assert_exact(
    cases: Sequence[Case],
    results: Sequence[Result],
    counts: collections.Counter[str],
    policy: str = "own policy",
) -> None:
    for case, result in zip(cases, results, strict=True):
        counts[f"{'wrong' if case.is_wrong else 'right'}, {policy}, {result.status}"] += 1
    others = {
        case.name: result
        for case, result in zip(cases, results, strict=True)
        if result.status != "exact"
    }
    assert not others


@cases("size", [2], thorough=[3])
def test_some_trainings_are_exact(
    size: int, pool_of: Any, counts: collections.Counter[str]
) -> None:
    cases = [CASES[name] for name in SHORT[size]]
    _assert_exact(cases, _results(pool_of, size, cases), counts)


@pytest.mark.thorough
def test_a_long_sum_in_half_precision_is_no_doubt(
    pool_of: Any, counts: collections.Counter[str]
) -> None:
    """The serial gradient of a bias of a convolution is off by more than the rules' distance."""
    cases, policy = [CASES["segmentation"]], "mixed_bfloat16"
    _assert_exact(cases, _results(pool_of, 2, cases, policy), counts, policy)


def _calls(cases: Sequence[Case]) -> list[Any]:
    starts = range(0, len(cases), CASES_OF_A_CALL)
    parts = [cases[start : start + CASES_OF_A_CALL] for start in starts]
    return [pytest.param(part, id=f"from {part[0].name}") for part in parts]


@pytest.mark.thorough
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("cases", _calls([*CASES.values()]))
def test_all_trainings_are_exact(
    cases: list[Case], size: int, pool_of: Any, counts: collections.Counter[str]
) -> None:
    _assert_exact(cases, _results(pool_of, size, cases), counts)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize(
    "cases", _calls([case for case in CASES.values() if case.half_precision and not case.is_wrong])
)
def test_right_trainings_are_exact_in_half_precision(
    cases: list[Case], policy: str, pool_of: Any, counts: collections.Counter[str]
) -> None:
    _assert_exact(cases, _results(pool_of, 2, cases, policy), counts, policy)
