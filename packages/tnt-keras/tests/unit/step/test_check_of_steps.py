"""The comparison of a step in replicas with the serial one reports faults, and nothing else."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tnt_keras.partition import Input, Replicas, Sharded, build, trace
from tnt_keras.partition.reshard import NoExchange, Request
from tnt_keras.partition.rules import registry
from tnt_keras.step.owner import StepOptions
from tnt_keras.step.reports import compare_with_serial, why_not_compared

X = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")


class OfOneProcess(NoExchange):
    """The exchange of a process that has all replicas."""

    def __init__(self) -> None:
        self._asked: list[Request] = []

    def ask(self, request: Request) -> None:
        self._asked.append(request)

    def flush(self, last: bool) -> list[tf.Tensor]:
        asked, self._asked = self._asked, []
        return [request.value for request in asked]


def compare(step: Callable[[tf.Tensor], Any]) -> None:
    """Compare a step with itself in two replicas."""
    traced = trace(step, [tf.TensorSpec([None, 3])])

    def in_replicas() -> Any:
        built = build(
            traced, [Input(X.shape, Sharded(0))], Replicas(0, 2, 2), 5, lambda _: OfOneProcess()
        )
        return built(tf.constant(X[::2]), tf.constant(X[1::2]))

    compare_with_serial("train_step", traced, [tf.constant(X)], in_replicas)


@pytest.fixture
def _tanh_of_partial_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table says of the hyperbolic tangent that it is linear, which it is not."""
    negation = registry.entry_of("Neg")
    monkeypatch.setitem(registry._table, "Tanh", negation)


def faults(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.usefixtures("_tanh_of_partial_sums")
def test_a_wrong_rule_is_an_error_with_value_operation_and_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weight = tf.Variable([1.0, 2.0, 3.0], name="weight")

    def step(x: tf.Tensor) -> Any:
        wrong = tf.tanh(tf.reduce_sum(x, axis=0), name="wrong")
        weight.assign_sub(wrong)
        return tf.reduce_sum(x), wrong

    compare(step)
    of_result, of_weight = faults(caplog)
    assert "bug in Tarantella: result 1 (Tanh 'wrong', " in of_result
    assert "test_check_of_steps.py:" in of_result
    assert "'weight:0' (Tanh 'wrong', " in of_weight
    np.testing.assert_array_equal(weight, [1.0, 2.0, 3.0])


def test_a_right_step_is_no_error_and_leaves_variables_as_they_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    weight = tf.Variable([1.0, 2.0, 3.0])

    def step(x: tf.Tensor) -> Any:
        weight.assign_sub(tf.tanh(tf.reduce_sum(x, axis=0)))
        return tf.reduce_mean(x, axis=0)

    compare(step)
    assert faults(caplog) == []
    np.testing.assert_array_equal(weight, [1.0, 2.0, 3.0])


def test_rounding_that_a_step_blows_up_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    def step(x: tf.Tensor) -> Any:
        nothing = tf.reduce_sum(x / 3) - tf.reduce_sum(x) / 3
        return nothing / (tf.abs(nothing) + 1e-12), tf.sign(nothing)

    compare(step)
    assert faults(caplog) == []


def test_a_step_is_as_exact_as_its_shortest_floats(caplog: pytest.LogCaptureFixture) -> None:
    def step(x: tf.Tensor) -> Any:
        return tf.cast(tf.reduce_sum(tf.cast(x * 0.1, tf.float16), axis=0), tf.float32) * 3

    compare(step)
    assert faults(caplog) == []


def test_a_step_that_needs_more_rows_is_not_checked(caplog: pytest.LogCaptureFixture) -> None:
    weight = tf.Variable(1.0)

    def step(x: tf.Tensor) -> Any:
        weight.assign_add(1.0)
        return tf.math.top_k(tf.reduce_sum(x, axis=1), 7)[0]

    with caplog.at_level(logging.INFO, "tnt_keras"):
        compare(step)
    assert "train_step is not checked: serially it fails on so few rows" in caplog.text
    assert float(weight) == 1.0


@pytest.mark.usefixtures("_tanh_of_partial_sums")
def test_a_wrong_integer_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    compare(lambda x: tf.cast(1e6 * tf.tanh(tf.reduce_sum(x)), tf.int32) // 1000)
    assert len(faults(caplog)) == 1


def test_what_cannot_be_compared_is_told() -> None:
    def reason(step: Callable[[tf.Tensor], Any], **options: Any) -> str | None:
        return why_not_compared(trace(step, [tf.TensorSpec([None, 3])]), StepOptions(**options))

    def printing(x: tf.Tensor) -> tf.Tensor:
        tf.print(x)
        return x

    def drawing(x: tf.Tensor) -> tf.Tensor:
        return x + tf.random.stateless_normal(tf.shape(x), [1, 2])

    assert reason(lambda x: x) is None
    assert reason(drawing) is None
    assert "PrintV2" in str(reason(printing))
    assert "random numbers of its own" in str(reason(drawing, draws="local"))
