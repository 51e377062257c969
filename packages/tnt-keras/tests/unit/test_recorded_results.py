"""Results that a step has returned are computed again, each metric's once."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tnt_keras.step.metrics import RecordedResults


class Several(keras.metrics.Metric):
    """Has several results, as the metrics given to `compile` have together."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.add_weight(shape=(), initializer="zeros", name="total")
        self.num_calls = 0

    def result(self) -> dict[str, Any]:
        self.num_calls += 1
        return {"once": tf.identity(self.total), "twice": 2.0 * self.total}


def test_all_results_of_a_metric_are_computed_again_by_one_call() -> None:
    metric, recorded = Several(), RecordedResults()
    with recorded.recording([metric]):
        of_this_rank = metric.result()
    metric.total.assign(7.0)
    assert recorded.recompute(tf.constant(0.0)) is None
    again = {name: recorded.recompute(value) for name, value in of_this_rank.items()}
    assert {name: float(compute()) for name, compute in again.items() if compute} == {
        "once": 7.0,
        "twice": 14.0,
    }
    assert metric.num_calls == 2


def test_the_value_of_a_result_that_is_a_variable_is_recorded() -> None:
    class Count(keras.metrics.Metric):
        def __init__(self) -> None:
            super().__init__()
            self.number = self.add_weight(shape=(), initializer="zeros")

        def result(self) -> Any:
            return {"keras": self.number, "tensorflow": self.number.value}

    metric = Count()

    @tf.function
    def derived() -> None:
        recorded = RecordedResults()
        with recorded.recording([metric]):
            results = metric.result()
        for result in results.values():
            assert recorded.recompute(result) is not None
            assert recorded.is_derived(tf.exp(result))
        assert not recorded.is_derived(tf.random.normal(()))

    derived()
