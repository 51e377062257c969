"""Small models and steps of parts that can be combined at will."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from . import data
from .added_losses import Adding
from .case import Case, Training
from .layer_state import Keeping
from .steps import OwnStep, squared_errors


@dataclasses.dataclass(frozen=True)
class Drawn:
    """The parts of a model and of its step, each a key of one of the tables below.

    Attributes:
        layers: Of `LAYERS`, in order.
        loss: Of `LOSSES`.
        change: Of `CHANGES`.
        update: Of `UPDATES`.
        log: Of `LOGS`.
        optimizer: Of `OPTIMIZERS`.
        batch_size: Samples of a global batch.
    """

    layers: tuple[str, ...]
    loss: str
    change: str
    update: str
    log: str
    optimizer: str
    batch_size: int

    def case(self) -> Case:
        """Return the training; whether it is exact or refused is not known."""
        return Case(repr(self), functools.partial(_make, self), is_wrong=True)


def _make(drawn: Drawn) -> Training:
    keras.utils.set_random_seed(7)
    layers = [LAYERS[name]() for name in drawn.layers]
    inner = keras.Sequential([keras.Input((6,)), *layers, keras.layers.Dense(1)])
    model = DrawnStep(inner, drawn)
    model.compile(optimizer=OPTIMIZERS[drawn.optimizer]())
    arrays = data.of_arrays(data.features(), data.targets())
    return model, arrays | {"batch_size": drawn.batch_size}


class DrawnStep(OwnStep):
    """A step that is put together of drawn parts."""

    def __init__(self, inner: Any, drawn: Drawn) -> None:
        super().__init__(inner, _loss_of(drawn))
        self.drawn = drawn

    def changed(self, gradients: list[Any]) -> list[Any]:
        return CHANGES[self.drawn.change](gradients)

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        errors = squared_errors(self, x, y)
        UPDATES[self.drawn.update](self.loss_tracker, errors)
        more = LOGS[self.drawn.log](errors)
        return {"loss": self.loss_tracker.result(), **more}


def _loss_of(drawn: Drawn) -> Callable[[Any, Any, Any], Any]:
    def loss_of(model: Any, x: Any, y: Any) -> Any:
        outputs = model(x, training=True)
        return LOSSES[drawn.loss](x, y, outputs) + sum(model.losses)

    return loss_of


def _errors(y: Any, outputs: Any) -> Any:
    return tf.reduce_mean((outputs - y) ** 2, axis=-1)


def _rows(x: Any) -> Any:
    return tf.cast(tf.shape(x)[0], tf.float32)


def _quotient(x: Any, y: Any, outputs: Any) -> Any:
    weights = tf.exp(x[:, 0])
    return tf.reduce_sum(weights * _errors(y, outputs)) / tf.reduce_sum(weights)


def _centred(x: Any, kept: Any) -> Any:
    return x - tf.reduce_mean(x, axis=0)


LAYERS: dict[str, Callable[[], Any]] = {
    "dense": lambda: keras.layers.Dense(6, activation="tanh"),
    "layer norm": keras.layers.LayerNormalization,
    "regularized": lambda: keras.layers.Dense(6, kernel_regularizer="l2"),
    "mean added": lambda: Adding(lambda x: 0.1 * tf.reduce_mean(x**2)),
    "sum added": lambda: Adding(lambda x: 0.01 * tf.reduce_sum(x**2)),
    "root added": lambda: Adding(lambda x: 0.1 * tf.sqrt(tf.reduce_mean(x**2))),
    "steps": lambda: Keeping(lambda kept, x: kept + 1.0),
    "rows": lambda: Keeping(lambda kept, x: kept + tf.shape(x)[0], dtype_kept="int32"),
    "total": lambda: Keeping(lambda kept, x: kept + tf.reduce_sum(x, axis=0), (6,)),
    "moving mean": lambda: Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.reduce_mean(x)),
    "moving sum": lambda: Keeping(lambda kept, x: 0.8 * kept + 0.2 * tf.reduce_sum(x)),
    "maximum": lambda: Keeping(lambda kept, x: tf.maximum(kept, tf.reduce_max(x))),
    "centred": lambda: Keeping(lambda kept, x: kept, use=_centred),
}

LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mean": lambda x, y, outputs: tf.reduce_mean(_errors(y, outputs)),
    "sum": lambda x, y, outputs: tf.reduce_sum(_errors(y, outputs)) / 10.0,
    "values": lambda x, y, outputs: _errors(y, outputs) / 10.0,
    "sum / rows": lambda x, y, outputs: tf.reduce_sum(_errors(y, outputs)) / _rows(x),
    "Keras": lambda x, y, outputs: keras.losses.Huber()(y, outputs),
    "Keras sum": lambda x, y, outputs: keras.losses.Huber(reduction="sum")(y, outputs) / 10.0,
    "Keras sum / rows": lambda x, y, outputs: (
        keras.losses.Huber(reduction="sum")(y, outputs) / _rows(x)
    ),
    "Keras weighted": lambda x, y, outputs: keras.losses.MeanSquaredError(
        reduction="mean_with_sample_weight"
    )(y, outputs, x[:, 0] ** 2),
    "quotient": _quotient,
    "root": lambda x, y, outputs: tf.sqrt(tf.reduce_mean(_errors(y, outputs))),
    "maximum": lambda x, y, outputs: tf.reduce_max(_errors(y, outputs)),
    "pairs": lambda x, y, outputs: tf.reduce_mean((outputs - tf.transpose(y)) ** 2),
    "neighbours": lambda x, y, outputs: tf.reduce_mean((outputs - y[::-1]) ** 2),
}

CHANGES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "none": lambda gradients: gradients,
    "scaled": lambda gradients: [0.5 * gradient for gradient in gradients],
    "clipped": lambda gradients: tf.clip_by_global_norm(gradients, 0.2)[0],
}

UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "values": lambda mean, errors: mean.update_state(errors),
    "mean": lambda mean, errors: mean.update_state(tf.reduce_mean(errors)),
    "sum": lambda mean, errors: mean.update_state(tf.reduce_sum(errors)),
    "weight of one": lambda mean, errors: mean.update_state(tf.reduce_mean(errors), 1.0),
    "root": lambda mean, errors: mean.update_state(tf.sqrt(tf.reduce_mean(errors))),
    "two values": lambda mean, errors: mean.update_state(
        tf.stack([tf.reduce_mean(errors), tf.reduce_mean(tf.sqrt(errors + 1e-6))])
    ),
}

LOGS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "none": lambda errors: {},
    "mean": lambda errors: {"more": tf.reduce_mean(errors)},
    "sum": lambda errors: {"more": tf.reduce_sum(errors)},
    "maximum": lambda errors: {"more": tf.reduce_max(errors)},
    "deviation": lambda errors: {"more": tf.math.reduce_std(errors)},
    "nested": lambda errors: {"more": {"mean": tf.reduce_mean(errors)}},
}

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD": lambda: keras.optimizers.SGD(0.05, momentum=0.5),
    "Adam": lambda: keras.optimizers.Adam(1e-2, epsilon=1e-3),
    "clipped": lambda: keras.optimizers.SGD(0.1, global_clipnorm=0.3),
    "accumulating": lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "averaging": lambda: keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.8),
}
