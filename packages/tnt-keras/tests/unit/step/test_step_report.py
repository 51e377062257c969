"""What a user is told of a step."""

from __future__ import annotations

import dataclasses
import logging

import pytest

from tnt_keras.partition import Exchanged, Explanation
from tnt_keras.process.rank import Settings
from tnt_keras.step import reports
from tnt_keras.step.batch_norm_region import Normalisations
from tnt_keras.step.reports import StepReport

GRADIENT = Exchanged("sum", "kernel", "train.py:7", 4_000_000, True, False, 1)
LOSS = Exchanged("sum", "loss", "train.py:7", 4, False, False, 1)
VIEWS = Exchanged("gather", "views", "train.py:3", 2048, False, True, 0)
CLASSIFIER = Explanation((GRADIENT, GRADIENT, LOSS), 2, 0.0, (), num_buckets=1)


def told(
    caplog: pytest.LogCaptureFixture,
    explanation: Explanation = CLASSIFIER,
    normalisations: Normalisations | None = None,
    num_rows: int = 64,
) -> list[tuple[str, str]]:
    with caplog.at_level(logging.INFO, "tnt_keras"):
        step = StepReport("train_step on 2 ranks", explanation, is_cut=True)
        step.announce(normalisations or Normalisations(), num_rows)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


@pytest.fixture(autouse=True)
def _of_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "num_lanes", lambda: 2)
    monkeypatch.setattr(reports, "given_lanes", lambda: None)


def test_one_line_tells_what_is_exchanged(caplog: pytest.LogCaptureFixture) -> None:
    assert told(caplog) == [
        (
            "INFO",
            "train_step on 2 ranks: 2 gradients (8 MB) in 1 bucket beside backpropagation, "
            "1 value (4 B) at the end, nothing else",
        )
    ]


def test_gathered_features_are_a_warning_with_the_users_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, warning = told(caplog, Explanation((VIEWS, LOSS), 2, 0.0, ()))
    assert warning == (
        "WARNING",
        "train_step on 2 ranks: the rows of 'views' (train.py:3) are gathered in each step, "
        "2.05 kB [work-repeated]",
    )


def test_rows_of_results_single_numbers_and_small_values_are_no_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    of_results = dataclasses.replace(VIEWS, level=1)
    of_numbers = dataclasses.replace(VIEWS, is_row=False)
    small = dataclasses.replace(VIEWS, num_bytes=1023)
    assert len(told(caplog, Explanation((of_numbers, of_results, small), 2, 0.1, ()))) == 1


def test_more_than_a_tenth_of_the_arithmetic_done_alike_is_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gathered = (("Svd", "loss/Svd", "train.py:9"),)
    _, (level, warning) = told(caplog, Explanation((LOSS,), 2, 0.11, gathered))
    assert level == "WARNING"
    assert "all ranks do 11% of the arithmetic alike" in warning
    assert "train.py:9" in warning


def test_which_batch_normalisation_is_in_force_is_told(caplog: pytest.LogCaptureFixture) -> None:
    _, *lines = told(caplog, normalisations=Normalisations({1, 2, 3}, {4}))
    assert lines == [
        ("INFO", "1 batch normalisation uses the rows of the whole batch, as on one rank"),
        (
            "INFO",
            "3 batch normalisations use each rank's rows, as DDP and Horovod do; "
            'batch_norm="global" gives the serial result',
        ),
    ]


@pytest.mark.parametrize(("num_rows", "is_warned"), [(31, True), (32, False)])
def test_statistics_of_less_than_16_rows_are_a_warning(
    num_rows: int, is_warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    lines = told(caplog, normalisations=Normalisations({1}, set()), num_rows=num_rows)
    assert ("15 samples of 31 on 2 ranks" in str(lines[2:])) == is_warned
    assert len(lines) == 2 + is_warned


def test_statistics_of_the_whole_batch_are_never_too_few(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(told(caplog, normalisations=Normalisations(set(), {1}), num_rows=4)) == 2


@pytest.mark.parametrize("is_wanted", [True, False])
def test_the_table_is_printed_if_it_is_asked_for(
    is_wanted: bool,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "settings", lambda: Settings(explains_steps=is_wanted))
    [(_, line)] = told(caplog)
    printed = capsys.readouterr().out.splitlines()
    assert printed[:1] == ([line] if is_wanted else [])
    assert len([row for row in printed if "train.py:7" in row]) == (3 if is_wanted else 0)


def test_steps_that_all_ranks_compute_say_so() -> None:
    step = StepReport("test_step on 2 ranks", CLASSIFIER, is_cut=False)
    assert step.table == (
        "test_step on 2 ranks: all ranks compute the whole batch, gathered before the step"
    )
