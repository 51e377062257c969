"""Trainings that XLA compiles, on several ranks or serially; each returns plain values."""

from __future__ import annotations

import logging
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from classifiers import classifier, compiled, samples
from logged import logged

import tnt_keras

layers = keras.layers
BATCH_SIZE = 5


def _model(shape: tuple[int, ...], *inner: Any) -> Any:
    output = layers.Dense(3, activation="softmax")
    return keras.Sequential([keras.Input(shape), *inner, output])


def _drawing() -> tuple[Any, Any]:
    """Dropout and noise: XLA draws other numbers than TensorFlow."""
    hidden = layers.Dense(8, activation="tanh"), layers.Dropout(0.3), layers.GaussianNoise(0.2)
    return _model((10,), *hidden), keras.optimizers.SGD(0.1, momentum=0.9)


def _synchronized() -> tuple[Any, Any]:
    """Statistics of the whole batch: exchanges within the forward and the backward pass."""
    hidden = layers.Dense(8), layers.BatchNormalization(synchronized=True), layers.ReLU()
    return _model((10,), *hidden), keras.optimizers.SGD(0.1, use_ema=True)


def _recurrent() -> tuple[Any, Any]:
    """Loops with draws, of gradients that are clipped together."""
    hidden = layers.Reshape((5, 2)), layers.LSTM(6, dropout=0.2, recurrent_dropout=0.2)
    return _model((10,), *hidden), keras.optimizers.SGD(0.1, global_clipnorm=0.05)


def _scaled(steps: int | None = None) -> tuple[Any, Any]:
    """Scaled losses, and an update in every so many steps."""
    inner = keras.optimizers.SGD(0.1, gradient_accumulation_steps=steps)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=64.0)
    return _model((10,), layers.Dense(8, activation="tanh")), optimizer


MODELS = {
    "draws": _drawing,
    "statistics of the batch": _synchronized,
    "recurrent": _recurrent,
    "scaled": _scaled,
    "accumulated": lambda: _scaled(2),
}


def trained(distributed: bool, name: str) -> dict[str, Any]:
    """Train, evaluate and predict with XLA."""
    keras.utils.set_random_seed(4)
    model, optimizer = MODELS[name]()
    arguments = {
        "optimizer": optimizer,
        "loss": "sparse_categorical_crossentropy",
        "metrics": ["accuracy"],
        "jit_compile": True,
    }
    model = compiled(model, distributed, arguments)
    x, y = samples()
    with logged(logging.INFO) as messages:
        history = model.fit(x, y, batch_size=BATCH_SIZE, epochs=2, shuffle=False, verbose=0)
    results = {
        "weights": [np.asarray(weight) for weight in model.get_weights()],
        "optimizer": [np.asarray(variable) for variable in model.optimizer.variables],
        "history": history.history,
        "evaluate": model.evaluate(x, y, batch_size=BATCH_SIZE, verbose=0),
        "predict": model.predict(x, batch_size=BATCH_SIZE, verbose=0),
    }
    told = [message for message in messages if "train_step on" in message]
    return results | ({"told": told} if distributed else {})


def averages_beside_accumulated_gradients() -> list[Any]:
    """Train with an update in every second step; returns the averages of the weights."""
    keras.utils.set_random_seed(4)
    hidden = layers.Dense(8, activation="tanh", kernel_regularizer="l2")
    model = tnt_keras.Model(_model((10,), hidden))
    optimizer = keras.optimizers.AdamW(
        0.01, use_ema=True, ema_momentum=0.9, gradient_accumulation_steps=2
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", jit_compile=True)
    x, y = samples()
    model.fit(x, y, batch_size=BATCH_SIZE, epochs=3, shuffle=False, verbose=0)
    of_weights = model.optimizer._model_variables_moving_average
    return [np.asarray(average) for average in of_weights]


def own_loop(distributed: bool) -> dict[str, Any]:
    """Train with a function of the user's own."""
    keras.utils.set_random_seed(4)
    model, optimizer = _drawing()
    if distributed:
        model = tnt_keras.Model(model)
    optimizer.build(model.trainable_variables)

    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            losses = keras.losses.sparse_categorical_crossentropy(y, model(x, training=True))
            loss = tf.reduce_mean(losses)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    function = (tnt_keras.function if distributed else tf.function)(step, jit_compile=True)
    x, y = samples()
    losses = [
        function(tf.constant(x[i : i + BATCH_SIZE]), tf.constant(y[i : i + BATCH_SIZE]))
        for i in range(0, len(x), BATCH_SIZE)
    ]
    weights = [np.asarray(weight) for weight in model.get_weights()]
    return {"weights": weights, "losses": [np.asarray(loss) for loss in losses]}


def steps_of_an_epoch_of_unknown_length(distributed: bool) -> int:
    """Count the steps of an epoch whose end Keras finds out in a step, but for XLA."""
    model = classifier(distributed, jit_compile=True)
    data = tf.data.Dataset.from_tensor_slices(samples()).batch(BATCH_SIZE)
    model.fit(data.filter(lambda x, y: True), epochs=2, verbose=0)
    return int(model.optimizer.iterations)


def with_what_xla_does_not_know(distributed: bool) -> str:
    """Train with strings in the loss; returns the error."""

    def loss(y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        text = tf.strings.as_string(tf.stop_gradient(y_pred[:, 0]))
        losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred)
        return losses + tf.strings.to_number(text)

    model = classifier(distributed, loss=loss, metrics=None, jit_compile=True)
    x, y = samples()
    try:
        model.fit(x, y, batch_size=BATCH_SIZE, verbose=0)
    except tf.errors.OpError as error:
        return str(error)
    return "none"


def chosen_by_keras(distributed: bool) -> bool:
    """Say what Keras chooses if nothing is asked for."""
    return bool(classifier(distributed).jit_compile)


def on_one_rank_alone() -> str:
    """Ask for XLA on rank 1 alone; returns the error."""
    model = classifier(True, jit_compile=tnt_keras.get_rank() == 1)
    try:
        model.fit(*samples(), batch_size=BATCH_SIZE, verbose=0)
    except ValueError as error:
        return str(error)
    return "none"


def with_lanes() -> dict[str, Any]:
    """Ask for XLA where there are lanes, for a model and for a function."""
    with logged() as messages:
        model = classifier(True, jit_compile=True)
        model.fit(*samples(), batch_size=BATCH_SIZE, verbose=0)
        function = tnt_keras.function(lambda x: tf.reduce_mean(x), jit_compile=True)
        mean = function(tf.constant(samples()[0]))
    ignored = [message for message in messages if "[jit-ignored]" in message]
    return {"in force": model.jit_compile, "ignored": ignored, "mean": np.asarray(mean)}


def with_lanes_given_late() -> dict[str, Any]:
    """Give lanes to a model that is compiled with XLA before."""
    with logged() as messages:
        model = classifier(False, jit_compile=True)
        model = tnt_keras.Model(model, lanes=2)
    ignored = [message for message in messages if "[jit-ignored]" in message]
    return {"in force": model.jit_compile, "ignored": ignored}
