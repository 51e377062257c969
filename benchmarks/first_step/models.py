"""Models whose steps are costly to trace, each in another way, and a batch for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks import keras_models

NUM_CLASSES = 10
PIXELS = 64
SIZES = keras_models.Sizes(pixels=PIXELS, layers=4, width=128, tokens=32)


def mlp() -> keras.Model:
    """Two hidden layers."""
    hidden = [keras.layers.Dense(32, activation="relu") for _ in range(2)]
    return compiled([keras.Input((20,)), *hidden])


def bidirectional_lstm() -> keras.Model:
    """Two layers, each of which traces its step in four loops."""
    layers = keras.layers
    inner = layers.Bidirectional(layers.LSTM(16, return_sequences=True))
    return compiled([keras.Input((20, 8)), inner, layers.Bidirectional(layers.LSTM(16))])


def text_lstm() -> keras.Model:
    """A classifier of padded sentences."""
    layers = keras.layers
    embedding = layers.Embedding(1000, 32, mask_zero=True)
    return compiled([keras.Input((30,), dtype="int32"), embedding, layers.LSTM(32)])


def mobilenet() -> keras.Model:
    """MobileNetV2, with random weights."""
    return of_images(keras.applications.MobileNetV2)


def efficientnet() -> keras.Model:
    """EfficientNetB0, with random weights: it has layers of preprocessing and dropout."""
    return of_images(keras.applications.EfficientNetB0)


def compiled(layers: list[Any]) -> keras.Model:
    """Return a classifier with these layers before the last one."""
    model = keras.Sequential([*layers, keras.layers.Dense(NUM_CLASSES, activation="softmax")])
    model.compile(
        "adam", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False
    )
    return model


def of_images(application: Any) -> keras.Model:
    """Return a network of Keras for small images."""
    model = application(weights=None, input_shape=(PIXELS, PIXELS, 3), classes=NUM_CLASSES)
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
    return model


def of_other_benchmarks(name: str) -> Callable[[], keras.Model]:
    """Return what makes one of the models that other benchmarks train."""
    return lambda: keras_models.MODELS[name](keras, SIZES)


MODELS: dict[str, Callable[[], keras.Model]] = {
    "mlp": mlp,
    "lenet": of_other_benchmarks("lenet"),
    "bidirectional_lstm": bidirectional_lstm,
    "text_lstm": text_lstm,
    "mobilenet": mobilenet,
    "efficientnet": efficientnet,
    "resnet50": of_other_benchmarks("resnet50"),
    "transformer": of_other_benchmarks("transformer"),
}


def samples_of(model: keras.Model, number: int) -> tuple[Any, Any]:
    """Return random inputs and labels, equal on all ranks."""
    random = np.random.default_rng(1)
    shape = (number, *model.input_shape[1:])
    is_text = model.input_dtype.startswith("int")
    inputs: Any = random.integers(1, 1000, shape) if is_text else random.random(shape)
    labels = random.integers(NUM_CLASSES, size=number, dtype=np.int32)
    return inputs.astype(model.input_dtype), labels
