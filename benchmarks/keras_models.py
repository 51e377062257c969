"""The models that are trained, and random samples for them."""

# They are made of the `keras` module that is given, which may be Keras 2 (`tf_keras`) too.

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from models.image_classification.architectures import build_network

NUM_CLASSES = 10
VOCABULARY = 8192
HEAD_WIDTH = 64
LENET_SHAPE = (28, 28, 1)
CNN_SHAPE = (32, 32, 3)
CNN_WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512))
"""Of the convolutions of each stage: 7.6 million parameters."""


@dataclass(frozen=True)
class Sizes:
    """Of models: images of ResNet-50, and the Transformer."""

    pixels: int  # side of the images
    layers: int
    width: int  # entries of the vector of one token
    tokens: int  # in one sample


def position_embedding(keras: Any) -> Any:
    """A layer that adds a learned vector for each position, as in Keras' examples."""

    class PositionEmbedding(keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.vectors = self.add_weight(shape=shape[1:], initializer="uniform", name="vectors")

        def call(self, inputs: Any) -> Any:
            return inputs + self.vectors

    return PositionEmbedding()


def make_lenet(keras: Any, sizes: Sizes) -> Any:
    """For images of 28 x 28 pixels."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input(LENET_SHAPE),
            layers.Conv2D(20, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(50, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(500, activation="relu"),
            layers.Dense(NUM_CLASSES, activation="softmax"),
        ]
    )
    return _compiled(keras, model, keras.optimizers.SGD(0.01, momentum=0.9))


def vgg(keras: Any, widths: Sequence[Sequence[int]]) -> Any:
    """A network for small images, in the manner of VGG (https://arxiv.org/abs/1409.1556)."""
    # Its last layers, whose gradients come first, hold nearly all parameters, and every stage
    # computes about as much: while the large gradients travel, most of backpropagation is still to
    # be done.
    layers = keras.layers
    model = keras.Sequential([keras.Input(CNN_SHAPE)])
    for stage in widths:
        for width in stage:
            model.add(layers.Conv2D(width, 3, padding="same", activation="relu"))
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(NUM_CLASSES))
    return model


def make_cnn(keras: Any, sizes: Sizes) -> Any:
    """Convolutions without batch normalisation, for images of 32 x 32 pixels."""
    model = vgg(keras, CNN_WIDTHS)
    model.add(keras.layers.Softmax())
    return _compiled(keras, model, keras.optimizers.SGD(0.01, momentum=0.9))


def make_resnet50(keras: Any, sizes: Sizes) -> Any:
    """That of the reference trainer, with random weights."""
    model = build_network(keras, "resnet50", sizes.pixels, NUM_CLASSES)
    return _compiled(keras, model, keras.optimizers.SGD(0.01, momentum=0.9))


def make_transformer(keras: Any, sizes: Sizes) -> Any:
    """An encoder whose vectors are averaged and classified."""
    layers = keras.layers
    heads = max(1, sizes.width // HEAD_WIDTH)
    tokens = keras.Input((sizes.tokens,), dtype="int32")
    hidden = position_embedding(keras)(layers.Embedding(VOCABULARY, sizes.width)(tokens))
    for _ in range(sizes.layers):
        attention = layers.MultiHeadAttention(heads, sizes.width // heads, dropout=0.1)
        hidden = layers.LayerNormalization()(hidden + attention(hidden, hidden))
        inner = layers.Dense(4 * sizes.width, activation="gelu")(hidden)
        outer = layers.Dropout(0.1)(layers.Dense(sizes.width)(inner))
        hidden = layers.LayerNormalization()(hidden + outer)
    pooled = layers.GlobalAveragePooling1D()(hidden)
    outputs = layers.Dense(NUM_CLASSES, activation="softmax")(pooled)
    return _compiled(keras, keras.Model(tokens, outputs), keras.optimizers.Adam(1e-4))


def make_transformer_base(keras: Any, sizes: Sizes) -> Any:
    """The Transformer base of the reference trainer, for pairs of sentences of `sizes.tokens`."""
    if keras.__version__.startswith("2."):
        raise ValueError("The layers of transformer_base are those of Keras 3.")
    from models.transformer.params import PARAM_SETS
    from models.transformer.task import TransformerTntTask

    params = PARAM_SETS["base"].replace(vocab_size=VOCABULARY)
    return TransformerTntTask(params).train_model


def make_samples(name: str, sizes: Sizes, number: int) -> tuple[Any, Any]:
    """Random inputs and labels, equal on all ranks."""
    random = np.random.default_rng(1)
    labels = random.integers(NUM_CLASSES, size=number, dtype=np.int32)
    if name == "transformer_base":
        inputs, targets = random.integers(2, VOCABULARY, size=(2, number, sizes.tokens))
        return (inputs, targets), targets
    if name == "transformer":
        return random.integers(VOCABULARY, size=(number, sizes.tokens), dtype=np.int32), labels
    shapes = {"lenet": LENET_SHAPE, "cnn": CNN_SHAPE, "resnet50": (sizes.pixels, sizes.pixels, 3)}
    return random.random((number, *shapes[name]), dtype=np.float32), labels


MODELS: dict[str, Callable[[Any, Sizes], Any]] = {
    "lenet": make_lenet,
    "cnn": make_cnn,
    "resnet50": make_resnet50,
    "transformer": make_transformer,
    "transformer_base": make_transformer_base,
}


def _compiled(keras: Any, model: Any, optimizer: Any) -> Any:
    model.compile(
        optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False
    )
    return model
