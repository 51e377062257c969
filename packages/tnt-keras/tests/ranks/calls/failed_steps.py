"""What ranks do whose step has failed on all of them, or on one."""

from __future__ import annotations

import time
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tnt_comm
import tnt_keras
from tnt_keras.calls import current_call


def _limited(limit: float) -> Any:
    """A loss that is an error for targets above a limit, on each rank that has such a target."""

    def loss(y: Any, predicted: Any) -> Any:
        are_low = tf.debugging.Assert(tf.reduce_all(y <= limit), ["a target is too large"])
        with tf.control_dependencies([are_low]):
            return tf.reduce_mean((y - predicted) ** 2, axis=-1)

    return loss


def _fit(loss: Any) -> Any:
    keras.utils.set_random_seed(0)
    model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    model.compile("sgd", loss)
    x, y = np.ones((8, 2), np.float32), np.arange(1, 9, dtype=np.float32)[:, None]
    return model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False)


def fail_on_all_and_go_on() -> list[float]:
    """Losses of a `fit` that follows one whose step has failed on every rank."""
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        _fit(_limited(0.0))
    return list(_fit("mse").history["loss"])


def fail_in_python_code_and_go_on() -> tuple[str, float]:
    """The error of the step on rank 0, which runs its Python code, and that of the others' step.

    Returns:
        The error's text, and how many seconds all of it took.
    """

    def loss(y: Any, predicted: Any) -> Any:
        def checked(targets: Any) -> Any:
            if np.any(targets > 7.5):
                raise ValueError("a target is too large for Python")
            return targets

        y = tf.ensure_shape(tf.py_function(checked, [y], tf.float32), predicted.shape)
        return tf.reduce_mean((y - predicted) ** 2, axis=-1)

    begin = time.monotonic()
    if tnt_keras.is_master_rank():
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large for Python"):
            _fit(loss)
        time.sleep(2.0)  # goes on with something else
        with pytest.raises(tnt_comm.CommError) as caught:
            _fit("mse")
    else:
        with pytest.raises(tnt_comm.CommError) as caught:
            _fit(loss)
    return str(caught.value), time.monotonic() - begin


def fit_where_the_last_rank_traces_slowly(seconds: float) -> float:
    """The loss of a `fit` whose loss function takes long to trace on the last rank."""

    def loss(y: Any, predicted: Any) -> Any:
        if tnt_comm.get_rank() == tnt_comm.get_size() - 1:
            time.sleep(seconds)
        return tf.reduce_mean((y - predicted) ** 2, axis=-1)

    return float(_fit(loss).history["loss"][0])


def fail_on_the_last_and_go_on(patience_s: float) -> str:
    """The error of the next call of the last rank, and of the step of the others."""
    current_call.PATIENCE_S = patience_s
    if tnt_comm.get_rank() == tnt_comm.get_size() - 1:
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            _fit(_limited(7.5))
        with pytest.raises(tnt_comm.CommTimeoutError) as caught:
            _fit("mse")
    else:
        with pytest.raises(tnt_comm.PeerLostError) as caught:
            _fit(_limited(7.5))
    return str(caught.value)


def go_on_after_an_error_of_all_without_the_master() -> str:
    """The error of rank 1, which goes on, when rank 0 has ended."""
    with pytest.raises(TypeError, match="pickle"):
        tnt_keras.broadcast_object(lambda: None)
    if tnt_keras.is_master_rank():
        raise RuntimeError("the master ends")
    with pytest.raises(tnt_comm.PeerLostError) as caught:
        _fit("mse")
    return str(caught.value)


def fail_and_save_in_the_end(patience_s: float, path: str) -> None:
    """A script that saves whatever happens."""
    current_call.PATIENCE_S = patience_s
    model = tnt_keras.Model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    model.compile("sgd", _limited(7.5))
    x, y = np.ones((8, 2), np.float32), np.arange(1, 9, dtype=np.float32)[:, None]
    try:
        model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False)
    finally:
        model.save(path)
