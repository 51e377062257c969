"""Collective calls of two threads at once are refused; calls within calls are not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from tnt_keras.calls.together import only_in_this_thread


def _error_in_another_thread(call: Callable[[], None]) -> str:
    errors: list[str] = []

    def run() -> None:
        try:
            call()
        except RuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()
    return "".join(errors)


def _evaluate() -> None:
    with only_in_this_thread("evaluate", "other.py:7"):
        pass


def test_calls_within_calls_are_allowed() -> None:
    with only_in_this_thread("fit", "train.py:3"):
        _evaluate()
        _evaluate()


def test_call_of_another_thread_is_refused_and_both_are_named() -> None:
    with only_in_this_thread("fit", "train.py:3"):
        _evaluate()  # ends without letting others in
        text = _error_in_another_thread(_evaluate)
    assert "`evaluate` (other.py:7) was called in the thread 'second'" in text
    assert "`fit` (train.py:3) is running in the thread 'MainThread'" in text


def test_calls_of_several_threads_may_follow_one_another() -> None:
    with only_in_this_thread("fit", ""):
        pass
    assert _error_in_another_thread(_evaluate) == ""


def _fail() -> None:
    with only_in_this_thread("fit", ""):
        raise KeyError


def test_call_that_failed_is_over() -> None:
    with pytest.raises(KeyError):
        _fail()
    assert _error_in_another_thread(_evaluate) == ""
