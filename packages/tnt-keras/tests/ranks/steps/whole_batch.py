"""What `gather_batch`, `batch_sum` and `batch_mean` give in the steps of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_keras as tnt


class Recorder(keras.Model):
    """Its test steps give what `compute(data)` gives: tensors by name."""

    def __init__(self, compute: Any) -> None:
        super().__init__()
        self.compute = compute

    def test_step(self, data: Any) -> Any:
        return self.compute(data)


class Keep(keras.callbacks.Callback):
    """Keeps the logs of each test step, as `seen`."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, np.ndarray]] = []

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.seen.append({name: np.asarray(value) for name, value in logs.items()})


DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int64", "bool"]


def rows_in_order(run_eagerly: bool, own_counts: list[list[int]] | None = None) -> Any:
    """What the operations give in steps on batches of 7, 7, 7 and 1 samples, for all dtypes.

    Args:
        run_eagerly: Whether no graph of the step is traced.
        own_counts: For each rank the numbers of samples of its own batches; by default Tarantella
            splits the batches.
    """

    def compute(x: Any) -> Any:
        values = {
            "pairs": tnt.gather_batch(tf.repeat(x, 2, axis=0)),
            "no weights": tnt.batch_mean(x, weights=tf.zeros_like(x[:, :1])),
            "weighted": tnt.batch_mean(x, weights=x[:, 0]),
        }
        for dtype in DTYPES:
            values[f"rows, {dtype}"] = tnt.gather_batch(tf.cast(x, dtype))
            values[f"sum, {dtype}"] = tnt.batch_sum(tf.cast(x % 3, dtype))
            values[f"mean, {dtype}"] = tnt.batch_mean(tf.cast(x % 3, dtype))
        return values

    keep = Keep()
    model = tnt.Model(Recorder(compute))
    model.compile(run_eagerly=run_eagerly)
    if own_counts is None:
        x = np.arange(44, dtype="float32").reshape(22, 2)
        model.evaluate(x, batch_size=7, verbose=0, callbacks=[keep])
        return keep.seen
    rank = tnt.get_rank()
    batches = [
        np.stack([np.arange(count) * 10.0 + rank, np.full(count, step)], 1).astype("float32")
        for step, count in enumerate(own_counts[rank])
    ]
    data = tf.data.Dataset.from_generator(
        lambda: iter(batches), output_signature=tf.TensorSpec((None, 2), tf.float32)
    )
    data = data.apply(tf.data.experimental.assert_cardinality(len(batches)))
    model.evaluate(
        data, steps=len(batches), verbose=0, callbacks=[keep], tnt_distribute_dataset=False
    )
    return keep.seen


MISTAKES: dict[str, Callable[[Any], Any]] = {
    "scalar": lambda x: tnt.batch_mean(tf.reduce_mean(x)),
    "text": lambda x: tnt.gather_batch(tf.strings.as_string(x)),
    "ragged": lambda x: tnt.batch_sum(tf.RaggedTensor.from_tensor(x)),
    "weights": lambda x: tnt.batch_mean(x[:, 0], weights=x),
}
"""Wrong uses."""


def errors_of_all() -> dict[str, str]:
    """The errors that steps with wrong uses end with, by name."""
    found = {}
    for name, compute in MISTAKES.items():
        model = tnt.Model(Recorder(compute))
        model.compile()
        try:
            model.evaluate(np.ones((4, 2), "float32"), verbose=0)
        except (RuntimeError, TypeError, ValueError, NotImplementedError) as error:
            found[name] = f"{type(error).__name__}: {error}"
    return found
