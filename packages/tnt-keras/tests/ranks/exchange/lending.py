"""Sums that TensorFlow holds where tnt-comm formed them: in the memory of the gradients."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_comm
import tnt_keras
from tnt_keras.exchange import ops

LARGE, SMALL = 100_000, 10  # elements; small tensors are copied


class Keeper(keras.optimizers.SGD):
    """Keeps the gradients of all steps, as tensors and as copies, as a user might."""

    def __init__(self) -> None:
        super().__init__(0.01)
        self.kept: list[tuple[tf.Tensor, np.ndarray]] = []

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        tf.py_function(self._keep, grads, [])
        return super().apply(grads, trainable_variables)

    def _keep(self, *grads: tf.Tensor) -> None:
        self.kept += [(gradient, gradient.numpy().copy()) for gradient in grads]


def keep_gradients(run_eagerly: bool) -> dict[str, Any]:
    """Trains with `Keeper`; returns which gradients are still what they were, and the weights."""
    keras.utils.set_random_seed(3)
    layers = [keras.layers.Dense(200, "tanh") for _ in range(3)]
    model = tnt_keras.Model(keras.Sequential([keras.Input((200,)), *layers]))
    keeper = Keeper()
    model.compile(keeper, "mse", run_eagerly=run_eagerly)
    x = np.random.default_rng(1).normal(size=(60, 200)).astype("float32")
    model.fit(x, -x, batch_size=10, shuffle=False, epochs=2, verbose=0)
    unchanged = [bool((tensor.numpy() == copy).all()) for tensor, copy in keeper.kept]
    copies = [copy for _, copy in keeper.kept]
    return {"unchanged": unchanged, "copies": copies, "weights": model.get_weights()}


def _reducer() -> tnt_comm.GradientReducer:
    specs = [tnt_comm.TensorSpec(str(n), "float32", n) for n in (LARGE, SMALL)]
    return tnt_comm.GradientReducer(tnt_comm.FusionPlan(specs, 0), name="lending")


def _own(count: int) -> tf.Tensor:
    """This rank's contribution: small integers."""
    return tf.range(count, dtype=tf.float32) * (tnt_comm.get_rank() + 1.0)


def _sum(reducer: tnt_comm.GradientReducer, factor: float) -> list[tf.Tensor]:
    """The sums over ranks of `factor` times what each contributes."""
    scale = tf.constant(factor, tf.float64)
    started = [ops.start_reduce(_own(n), scale, reducer, i) for i, n in enumerate((LARGE, SMALL))]
    barrier = tf.add_n([token for token, _ in started])
    return [
        ops.finish_reduce(pending, barrier, reducer, i)[1] for i, (_, pending) in enumerate(started)
    ]


def _expected(factor: float, count: int) -> np.ndarray:
    size = tnt_comm.get_size()
    return np.arange(count, dtype=np.float32) * np.float32(factor * size * (size + 1) / 2)


def _address(tensor: tf.Tensor) -> int:
    return int(np.asarray(memoryview(tensor)).ctypes.data)


@tf.function
def _traced(
    reducer_of: Callable[[], tnt_comm.GradientReducer], scale: tf.Tensor, is_read_later: bool
) -> tuple[tf.Tensor, ...]:
    """Address of a large tensor, its sum, and the tensor as somebody sees it after the sum."""
    reducer = reducer_of()
    value = _own(LARGE) * tf.cast(scale, tf.float32)
    address = tf.py_function(_address, [value], tf.int64)
    with tf.control_dependencies([address]):
        token, pending = ops.start_reduce(value, tf.ones_like(scale), reducer, 0)
        small_token, small = ops.start_reduce(_own(SMALL), scale, reducer, 1)
    barrier = token + small_token
    sums = [
        ops.finish_reduce(each, barrier, reducer, i)[1] for i, each in enumerate((pending, small))
    ]
    with tf.control_dependencies(sums):
        seen = value + 0.0 if is_read_later else tf.zeros([])
    return address, sums[0], sums[1], seen


def sums_in_the_memory_of_gradients(is_read_later: bool) -> list[bool]:
    """For some steps, whether the sum lies where the rank's own tensor was."""
    reducer = _reducer()
    is_same = []
    for factor in range(1, 6):
        scale = tf.constant(factor, tf.float64)
        address, large, small, seen = _traced(lambda: reducer, scale, is_read_later)
        np.testing.assert_array_equal(large, _expected(factor, LARGE))
        np.testing.assert_array_equal(small, _expected(factor, SMALL))
        if is_read_later:
            np.testing.assert_array_equal(seen, _own(LARGE) * factor)
        is_same.append(_address(large) == int(address))
    return is_same


def sums_that_outlive_their_reducer() -> None:
    """Closes the reducer, and overwrites what memory others get, while sums are alive."""
    reducer = _reducer()
    sums = _sum(reducer, 3)
    reducer.close()
    del reducer
    gc.collect()
    others = [_sum(_reducer(), 7) for _ in range(3)]
    for tensor, count in zip(sums, (LARGE, SMALL), strict=True):
        np.testing.assert_array_equal(tensor, _expected(3, count))
    for tensors in others:
        np.testing.assert_array_equal(tensors[0], _expected(7, LARGE))
    globals()["_alive_at_exit"] = sums  # returned after tnt_comm has ended
