"""Sums that TensorFlow holds where tnt-comm formed them."""

from __future__ import annotations

import gc
import pathlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_comm
import tnt_keras
from tnt_keras import ops

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


def _sum(reducer: tnt_comm.GradientReducer, factor: float) -> list[tf.Tensor]:
    """The sums over ranks of `factor * (rank + 1) * [0, 1, 2, ...]`, small integers."""
    values = [tf.range(n, dtype=tf.float32) * (tnt_comm.get_rank() + 1.0) for n in (LARGE, SMALL)]
    scale = tf.constant(factor, tf.float64)
    tokens = [ops.start_reduce(value, scale, reducer, i) for i, value in enumerate(values)]
    barrier = tf.add_n(tokens)
    return [ops.finish_reduce(value, barrier, reducer, i) for i, value in enumerate(values)]


def _expected(factor: float, count: int) -> np.ndarray:
    size = tnt_comm.get_size()
    return np.arange(count, dtype=np.float32) * np.float32(factor * size * (size + 1) / 2)


def _is_in_shared_memory(tensor: tf.Tensor) -> bool:
    address = np.asarray(memoryview(tensor)).ctypes.data
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        if "/dev/shm/tnt-" in line:
            begin, end = (int(word, 16) for word in line.split()[0].split("-"))
            if begin <= address < end:
                return True
    return False


def places_of_sums() -> dict[str, list[bool]]:
    """Where the sums of five steps lie if all are kept, and if none is."""
    reducer = _reducer()
    kept = [_sum(reducer, step + 1) for step in range(5)]
    for step, sums in enumerate(kept):
        for tensor, count in zip(sums, (LARGE, SMALL), strict=True):
            np.testing.assert_array_equal(tensor, _expected(step + 1, count))
    places = {
        "large, kept": [_is_in_shared_memory(large) for large, _ in kept],
        "small, kept": [_is_in_shared_memory(small) for _, small in kept],
    }
    del kept
    gc.collect()
    places["large, dropped"] = [_is_in_shared_memory(_sum(reducer, 1)[0]) for _ in range(5)]
    return places


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
