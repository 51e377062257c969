"""On several ranks one thread at a time calls methods of distributed models; others are refused."""

from __future__ import annotations

from typing import Any

import pytest
import threads
from cases import cases
from serial_results import assert_close


@cases("method", ["fit"], thorough=("evaluate", "predict", "train_on_batch"))
def test_call_of_a_second_thread_is_refused_and_both_calls_are_named(
    method: str, pool_of: Any
) -> None:
    [expected] = pool_of(1).run(threads.weights_after_fit, False)
    for result in pool_of(2).run(threads.fit_during_fit, method):
        [(kind, text), _] = result["refused"]  # one for each epoch
        assert kind == "RuntimeError"
        assert f"`{method}` (threads.py:" in text
        assert "in the thread 'second' while `fit` (threads.py:" in text
        assert result["later errors"] == []
        for weights in result["weights"]:
            assert_close(weights, expected)


@pytest.mark.thorough
def test_threads_of_one_rank_are_those_of_plain_keras(pool_of: Any) -> None:
    [result] = pool_of(1).run(threads.fit_during_fit, "fit")
    assert result["refused"] == []


def test_plain_models_train_in_another_thread(pool_of: Any) -> None:
    [expected] = pool_of(1).run(threads.weights_after_fit, False)
    for distributed, plain in pool_of(2).run(threads.plain_fit_during_fit):
        assert_close(distributed, expected)
        assert_close(plain, expected)
