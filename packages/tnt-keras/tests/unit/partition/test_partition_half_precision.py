"""Layers and activations of Keras train in replicas in half precision as they do in plain Keras."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import pytest
from cases import cases
from fit_replicas import build_metrics, in_replicas

layers = keras.layers

ACTIVATIONS = (
    "celu", "elu", "exponential", "gelu", "hard_shrink", "hard_sigmoid", "hard_silu",
    "hard_tanh", "leaky_relu", "log_sigmoid", "log_softmax", "mish", "relu", "relu6", "selu",
    "sigmoid", "silu", "soft_shrink", "softmax", "softplus", "softsign", "sparse_plus",
    "squareplus", "tanh", "tanh_shrink",
)  # fmt: skip


def of_vectors(x: Any, activations: Sequence[str]) -> list[Any]:
    makers = [
        *(layers.Activation(name) for name in activations if hasattr(keras.activations, name)),
        *(layers.LayerNormalization(), layers.GroupNormalization(2)),
        *(layers.Dropout(0.3), layers.GaussianNoise(0.1), layers.AlphaDropout(0.1), layers.PReLU()),
        *(layers.BatchNormalization(synchronized=True), layers.Rescaling(0.5)),
    ]
    return [make(layers.Dense(4)(x)) for make in makers]


def of_sequences(x: Any) -> list[Any]:
    attended = layers.MultiHeadAttention(2, 2, dropout=0.2)(x, x, use_causal_mask=True)
    return [
        layers.Flatten()(attended),
        layers.GRU(3)(x),
        layers.Flatten()(layers.SeparableConv1D(3, 3)(x)),
        layers.Flatten()(layers.SpatialDropout1D(0.2)(x)),
    ]


def of_images(x: Any) -> list[Any]:
    return [
        layers.Flatten()(layers.MaxPooling2D()(layers.Conv2D(3, 3, activation="gelu")(x))),
        layers.Flatten()(layers.DepthwiseConv2D(3)(x)),
        layers.GlobalAveragePooling2D()(layers.Conv2DTranspose(2, 3, strides=2)(x)),
        layers.Flatten()(layers.AveragePooling2D(2)(layers.UpSampling2D(2)(x))),
    ]


INPUTS = {"vector": (6,), "sequence": (5, 3), "image": (8, 8, 2)}


def new_model(activations: Sequence[str]) -> keras.Model:
    keras.utils.set_random_seed(3)
    inputs = {name: keras.Input(shape, name=name) for name, shape in INPUTS.items()}
    branches = [
        *of_vectors(inputs["vector"], activations),
        *of_sequences(inputs["sequence"]),
        *of_images(inputs["image"]),
    ]
    joined = layers.Concatenate()(branches)
    model = keras.Model(inputs, layers.Dense(2, "sigmoid", dtype="float32")(joined))
    # Float16 scales its loss by itself: plain Keras wraps the optimizer.
    model.compile(keras.optimizers.Adam(1e-3), "mse", metrics=["mae"])
    return model


@pytest.fixture
def policy(request: pytest.FixtureRequest) -> Iterator[str]:
    keras.mixed_precision.set_dtype_policy(request.param)
    yield request.param
    keras.mixed_precision.set_dtype_policy("float32")


@cases(
    ("policy", "activations"),
    [("mixed_bfloat16", ["gelu", "log_softmax", "selu", "softplus", "squareplus"])],
    thorough=[(policy, ACTIVATIONS) for policy in ("mixed_bfloat16", "mixed_float16")],
    indirect=["policy"],
)
def test_layers_of_keras_train_in_half_precision(policy: str, activations: Sequence[str]) -> None:
    draw = np.random.default_rng(0).random
    x = {name: draw((7, *shape), "float32") for name, shape in INPUTS.items()}
    y = draw((7, 2), "float32")
    model = new_model(activations)
    build_metrics(model, x, y)
    state = [*model.variables, *model.optimizer.variables]
    first = [variable.numpy() for variable in state]
    losses = []
    for replicas in (None, 2):
        for variable, value in zip(state, first, strict=True):
            variable.assign(value)
        if replicas:
            in_replicas(model, replicas)
        history = model.fit(x, y, batch_size=7, epochs=2, shuffle=False, verbose=0).history
        losses.append([*history["loss"], *history["mae"]])
    plain, in_two = losses
    rounding = {"mixed_bfloat16": 2**-7, "mixed_float16": 2**-10}[policy]
    np.testing.assert_allclose(in_two, plain, rtol=2 * rounding)
