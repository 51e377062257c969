"""Exchanges of steps that go wrong on some rank, and what is said about them."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from step_exchanges import Request

import tnt_comm
from tnt_keras.exchange import ops
from tnt_keras.exchange.step_exchange import StepChannels


def _run(step: Any) -> Any:
    return tf.function(step, autograph=False)()


def ask_for_different_things(what: str) -> str:
    """The error of all ranks if rank 1 asks for something else than the others."""
    is_other = tnt_comm.get_rank() == 1
    channels = StepChannels("train_step")

    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", tf.ones([2]), "dense/MatMul", "model.py:3"))
        exchange.flush(last=False)
        if what == "another shape":
            shape = [3] if is_other else [2]
            exchange.ask(Request("sum", tf.ones(shape), "dense_1/MatMul", "model.py:4"))
        elif what == "another kind":
            kind = "max" if is_other else "sum"
            exchange.blocking(Request(kind, tf.ones([2]), "dense_1/MatMul", "model.py:4"))
        elif what == "one more":
            if is_other:
                exchange.blocking(Request("gather", tf.ones([2]), "dense_1/MatMul", "model.py:4"))
        elif what == "another order":
            for name in ("a", "b")[:: -1 if is_other else 1]:
                shape = [5, 1] if name == "a" else [5]
                exchange.ask(Request("sum", tf.ones(shape), name, "model.py:4"))
        exchange.flush(last=True)

    with pytest.raises(tnt_comm.MismatchError) as caught:
        _run(step)
    return str(caught.value)


def go_on_after_a_difference() -> float:
    """A sum of the next step, when ranks have been told of a difference."""
    ask_for_different_things("another shape")
    channels = StepChannels("train_step")

    def step() -> Any:
        exchange = channels.new_exchange()
        exchange.ask(Request("sum", tf.ones([])))
        return exchange.flush(last=True)

    return float(_run(step)[0])


def bring_rows_of_other_shapes(how: str) -> str:
    """The error of all ranks if a row of rank 1 has another size than those of the others."""
    columns = 3 if tnt_comm.get_rank() == 1 else 2
    channels = StepChannels("train_step")

    @tf.function(input_signature=[tf.TensorSpec([None, None])], autograph=False)
    def step(rows: tf.Tensor) -> Any:
        exchange = channels.new_exchange()
        kind = "sum" if how == "alone, summed" else "gather"
        request = Request(kind, rows, "embedding/Gather", "simclr.py:12")
        if how == "in a group":
            exchange.ask(request)
            return exchange.flush(last=True)
        result = exchange.blocking(request)
        exchange.flush(last=True)
        return result

    with pytest.raises(tf.errors.AbortedError) as caught:
        step(tf.ones([3, columns]))
    return str(caught.value)


def gather_rows_of_other_shapes_without_labels(dtype: str) -> str:
    """What a rank says whose rows are not like those of another, when nothing was compared."""
    is_other = tnt_comm.get_rank() == 1
    rows = tf.cast(tf.ones([1, 3 if is_other else 2]), tf.int32)
    rows = tf.strings.as_string(rows) if dtype == "string" else rows
    gatherer = tnt_comm.Gatherer("rows of other shapes")
    one, label = ops.variable_of_one().read_value(), ops.Label()
    token = ops.start("gather", rows, one, gatherer, label)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        ops.finish("gather", rows, token, gatherer, label)
    return str(caught.value)


def fail_before_an_exchange(where: str) -> None:
    """Raises in the step of rank 1, before it comes to an exchange that others wait in."""
    channels = StepChannels("train_step")
    rank = tnt_comm.get_rank()

    def check(value: Any) -> Any:
        if rank == 1 and value > 1:
            raise ValueError("rank 1 has a bad sample")
        return value

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> Any:
        exchange = channels.new_exchange()

        def exchanged(value: tf.Tensor) -> tf.Tensor:
            checked = tf.ensure_shape(tf.numpy_function(check, [value], tf.float32), [])
            return exchange.blocking(Request("sum", checked, "loss"))

        if where == "loop":
            _, total = exchange.ordered(
                lambda: tf.while_loop(
                    lambda i, _: i < 3, lambda i, _: (i + 1, exchanged(x)), [0, x]
                )
            )
        else:
            checked = tf.ensure_shape(tf.numpy_function(check, [x], tf.float32), [])
            exchange.ask(
                Request("gather" if where == "rows" else "sum", checked[tf.newaxis], "loss")
            )
            [total] = exchange.flush(last=False)
        exchange.ask(Request("sum", tf.reduce_sum(total)))
        return exchange.flush(last=True)

    for value in (0.0, 1.0, 2.0):
        step(tf.constant(value))


def come_late() -> None:
    """Rank 1 comes late to each kind of exchange, once."""
    channels = StepChannels("train_step")
    is_late = tnt_comm.get_rank() == 1

    def sleep(value: Any) -> Any:
        time.sleep(1.5 if is_late else 0.0)
        return value

    @tf.function(autograph=False)
    def step(x: tf.Tensor) -> Any:
        exchange = channels.new_exchange()

        def late(value: tf.Tensor) -> tf.Tensor:
            return tf.ensure_shape(tf.numpy_function(sleep, [value], tf.float32), [2])

        exchange.ask(Request("gather", late(x), "embedding/Gather", "simclr.py:12"))
        [rows] = exchange.flush(last=False)
        single = exchange.blocking(Request("max", late(rows[:2]), "norm/Max", "simclr.py:13"))
        exchange.ask(Request("sum", late(single), "dense/kernel", "model.py:5", is_update=True))
        return exchange.flush(last=True)

    np.testing.assert_array_equal(step(tf.ones([2]))[0], [2.0, 2.0])
