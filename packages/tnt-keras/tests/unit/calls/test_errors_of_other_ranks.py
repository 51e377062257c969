"""An error that tells of another rank has the name of its kind, and both in tracebacks."""

from __future__ import annotations

import pickle
import traceback

import pytest

from tnt_keras.calls.errors import OtherRankError, cause_of, of_other_rank, with_text


@pytest.mark.parametrize("kind", [RuntimeError, FileNotFoundError, TypeError, KeyError])
def test_it_is_of_both_classes_and_can_be_pickled(kind: type[Exception]) -> None:
    error = of_other_rank(kind, 1, "Rank 0: rank 1 failed")
    assert isinstance(error, kind)
    assert isinstance(error, OtherRankError)
    assert type(error).__name__ == kind.__name__
    shown = traceback.format_exception_only(error)[0]
    assert "errors.OtherRankError." + kind.__name__ in shown
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args) == (type(error), ("Rank 0: rank 1 failed",))
    assert copy.cause_rank == 1


def test_the_cause_of_one_is_itself_and_its_class_takes_the_line_of_the_user() -> None:
    error = of_other_rank(OSError, 1, "Rank 0: rank 1 failed")
    assert cause_of(error) is error
    told = with_text(error, f"train.py:3: {error}")
    assert str(told) == "train.py:3: Rank 0: rank 1 failed [other-rank-failed]"
    assert (type(told), told.cause_rank) == (type(error), 1)
