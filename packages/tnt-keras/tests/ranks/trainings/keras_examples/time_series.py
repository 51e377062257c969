"""Series: forecasts, anomalies, classification."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, adam, labels, numbers, shown


@example("time series", "weather forecast by an LSTM on timeseries_dataset_from_array")
def weather_forecast(tnt: Any) -> Values:
    measured = np.cumsum(np.random.default_rng(1).normal(size=(25, 3)), axis=0).astype("float32")
    measured = (measured - measured.mean(axis=0)) / measured.std(axis=0)
    dataset = keras.utils.timeseries_dataset_from_array(
        measured, measured[6:, 0], sequence_length=4, batch_size=BATCH_SIZE
    )
    inputs = keras.Input((4, 3))
    model = keras.Model(inputs, layers.Dense(1)(layers.LSTM(4)(inputs)))
    model = tnt.Model(model)
    model.compile(adam(), "mse")
    history = model.fit(dataset, epochs=EPOCHS, validation_data=dataset, verbose=0)
    return shown(model, history=history, predictions=model.predict(dataset, verbose=0))


@example("time series", "anomalies by the errors of a convolutional autoencoder")
def anomalies(tnt: Any) -> Values:
    model = keras.Sequential(
        [
            keras.Input((8, 1)),
            layers.Conv1D(3, 3, strides=2, padding="same", activation="relu"),
            layers.Dropout(0.2),
            layers.Conv1DTranspose(1, 3, strides=2, padding="same"),
        ]
    )
    model = tnt.Model(model)
    model.compile(adam(), "mse")
    x = numbers(8, 1)
    stop = keras.callbacks.EarlyStopping(patience=5, mode="min")
    history = model.fit(x, x, validation_split=0.2, callbacks=[stop], **FIT)
    errors = np.mean(np.abs(model.predict(x, verbose=0) - x), axis=1)
    return shown(model, history=history, threshold=errors.max(), anomalies=errors > 1.0)


@example("time series", "classification by convolutions, the best weights kept in a file")
def series_by_convolutions(tnt: Any) -> Values:
    inputs = keras.Input((8, 1))
    x = layers.Conv1D(4, 3, padding="same", use_bias=False)(inputs)
    normalization = layers.BatchNormalization(synchronized=True)  # changed
    x = layers.GlobalAveragePooling1D()(layers.ReLU()(normalization(x)))
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(x))
    model = tnt.Model(model)
    model.compile(adam(), "sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [
        keras.callbacks.ModelCheckpoint("best.keras", save_best_only=True, monitor="val_loss"),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=1, min_lr=1e-4),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=3),
    ]
    split = {"validation_split": 0.2, "callbacks": callbacks}
    history = model.fit(numbers(8, 1), labels(2), **FIT, **split)
    best = keras.saving.load_model("best.keras")
    return shown(model, history=history, best=best.predict(numbers(8, 1), verbose=0))


@example("time series", "classification by a Transformer encoder")
def series_by_transformer(tnt: Any) -> Values:
    inputs = x = keras.Input((8, 2))
    attended = layers.Dropout(0.25)(layers.MultiHeadAttention(2, 2, use_bias=False)(x, x))
    x = layers.add([layers.LayerNormalization(epsilon=1e-6)(attended), x])
    inner = layers.Conv1D(2, 1)(layers.Conv1D(4, 1, activation="relu")(x))
    x = layers.add([layers.LayerNormalization(epsilon=1e-6)(inner), x])
    x = layers.GlobalAveragePooling1D(data_format="channels_last")(x)
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    model = tnt.Model(model)
    loss = "sparse_categorical_crossentropy"
    model.compile(adam(), loss, metrics=["sparse_categorical_accuracy"])
    return shown(model, history=model.fit(numbers(8, 2), labels(), **FIT))
