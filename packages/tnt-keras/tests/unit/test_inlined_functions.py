"""Functions become part of what calls them, as AutoGraph converts them, without a word."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tnt_keras.step.context import inlined_functions


def test_functions_are_inlined_in_a_block_and_traced_after_it() -> None:
    calls: list[bool] = []

    @tf.function
    def note() -> None:
        calls.append(tf.executing_eagerly())

    with inlined_functions():
        note()
    note()
    assert calls == [True, False]


class Limiter(tf.Module):
    """Has a `tf.function` that needs AutoGraph in a graph."""

    @tf.function
    def limit(self, value: tf.Tensor) -> tf.Tensor:
        if value > 1.0:
            value = self.one()
        return value

    @tf.function
    def one(self) -> tf.Tensor:
        return tf.constant(1.0)


@pytest.mark.parametrize("status", ["of AutoGraph", "without AutoGraph"])
def test_inlined_functions_are_converted_in_a_graph(status: str) -> None:
    limiter = Limiter()

    @tf.function(autograph=status == "of AutoGraph")
    def outer(value: tf.Tensor) -> tf.Tensor:
        with inlined_functions():
            return limiter.limit(value)

    graph = outer.get_concrete_function(tf.TensorSpec([])).graph
    assert [outer(value).numpy() for value in (tf.constant(0.5), tf.constant(2.0))] == [0.5, 1.0]
    assert not any("Call" in node.op for node in graph.as_graph_def().node)


def test_a_function_without_autograph_stays_without() -> None:
    @tf.function(autograph=False)
    def limit(value: tf.Tensor) -> tf.Tensor:
        return tf.zeros([]) if value > 1.0 else value

    @tf.function
    def outer(value: tf.Tensor) -> tf.Tensor:
        with inlined_functions():
            return limit(value)

    with pytest.raises(tf.errors.OperatorNotAllowedInGraphError):
        outer(tf.constant(2.0))


def test_vectorized_maps_are_silent(capfd: pytest.CaptureFixture[str]) -> None:
    with inlined_functions():
        doubled = tf.vectorized_map(lambda x: 2 * x, tf.range(3))
    assert doubled.numpy().tolist() == [0, 2, 4]
    captured = capfd.readouterr()
    assert "run_functions_eagerly" not in captured.err + captured.out
