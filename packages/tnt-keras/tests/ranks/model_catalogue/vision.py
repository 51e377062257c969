"""Networks of images."""

from __future__ import annotations

from typing import Any

import keras

from . import data
from .case import Training, right

layers = keras.layers


def _classifier(x: Any, y: Any, channels: int = 1) -> Training:
    model = keras.Model(x, layers.Dense(3, activation="softmax")(y))
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.5),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model, data.of_arrays(data.images(channels=channels), data.labels())


@right()
def lenet() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.Conv2D(3, 3, activation="tanh")(x)
    y = layers.AveragePooling2D(2)(y)
    y = layers.Conv2D(4, 2, activation="tanh")(y)
    return _classifier(x, layers.Dense(5, activation="tanh")(layers.Flatten()(y)))


@right(batch_statistics=True)
def residual_block() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.Conv2D(4, 3, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(y))
    branch = layers.Conv2D(4, 3, padding="same", use_bias=False)(y)
    branch = layers.BatchNormalization(momentum=0.9, gamma_initializer="zeros")(branch)
    y = layers.ReLU()(layers.Add()([y, branch]))
    return _classifier(x, layers.GlobalAveragePooling2D()(y))


@right()
def residual_block_in_inference_mode() -> Training:
    """Fine-tuning with frozen batch normalisation."""
    x = keras.Input((8, 8, 1))
    y = layers.Conv2D(4, 3, padding="same")(x)
    normalised = layers.BatchNormalization(trainable=False)(y)
    y = layers.Add()([y, layers.ReLU()(normalised)])
    return _classifier(x, layers.GlobalAveragePooling2D()(y))


@right(batch_statistics=True)
def mobilenet_block() -> Training:
    """Expansion, depthwise convolution, projection."""
    x = keras.Input((8, 8, 2))
    y = layers.ReLU(6.0)(layers.BatchNormalization()(layers.Conv2D(6, 1, use_bias=False)(x)))
    y = layers.DepthwiseConv2D(3, padding="same", use_bias=False)(y)
    y = layers.ReLU(6.0)(layers.BatchNormalization()(y))
    y = layers.Add()([x, layers.BatchNormalization()(layers.Conv2D(2, 1, use_bias=False)(y))])
    return _classifier(x, layers.GlobalAveragePooling2D()(y), channels=2)


@right()
def separable_convolutions() -> Training:
    x = keras.Input((8, 8, 2))
    y = layers.SeparableConv2D(4, 3, activation="tanh")(x)
    y = layers.GroupNormalization(2)(y)
    return _classifier(x, layers.GlobalMaxPooling2D()(y), channels=2)


@right()
def squeeze_and_excitation() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.Conv2D(4, 3, activation="tanh")(x)
    gate = layers.GlobalAveragePooling2D(keepdims=True)(y)
    gate = layers.Dense(4, activation="sigmoid")(layers.Dense(2, activation="tanh")(gate))
    return _classifier(x, layers.Flatten()(layers.Multiply()([y, gate])))


@right()
def vision_transformer() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.Reshape((4, 4))(layers.Conv2D(4, 4, strides=4)(x))
    normalised = layers.LayerNormalization()(y)
    y = layers.Add()([y, layers.MultiHeadAttention(2, 2)(normalised, normalised)])
    y = layers.Add()([y, layers.Dense(4, activation="gelu")(layers.LayerNormalization()(y))])
    return _classifier(x, layers.Flatten()(y))


@right(draws=True)
def augmented_images() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.RandomFlip()(x)
    y = layers.RandomTranslation(0.2, 0.2)(y)
    y = layers.RandomContrast(0.3, value_range=(0, 1))(y)
    y = layers.Conv2D(3, 3, activation="tanh")(y)
    return _classifier(x, layers.Flatten()(y))


@right(draws=True)
def noise_and_dropout() -> Training:
    x = keras.Input((8, 8, 1))
    y = layers.GaussianNoise(0.1)(x)
    y = layers.SpatialDropout2D(0.3)(layers.Conv2D(4, 3, activation="relu")(y))
    return _classifier(x, layers.Dropout(0.4)(layers.Flatten()(y)))


@right()
def segmentation() -> Training:
    """U-Net of two levels, one label for each pixel."""
    x = keras.Input((8, 8, 1))
    fine = layers.Conv2D(3, 3, padding="same", activation="tanh")(x)
    coarse = layers.Conv2D(4, 3, padding="same", activation="tanh")(layers.MaxPooling2D()(fine))
    up = layers.Conv2DTranspose(3, 2, strides=2)(coarse)
    y = layers.Conv2D(1, 1, activation="sigmoid")(layers.Concatenate()([fine, up]))
    model = keras.Model(x, y)
    model.compile(
        keras.optimizers.SGD(0.3),
        keras.losses.BinaryFocalCrossentropy(),
        metrics=["binary_accuracy"],
    )
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@right()
def dice_of_each_image() -> Training:
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), layers.Conv2D(1, 3, padding="same", activation="sigmoid")]
    )
    model.compile(keras.optimizers.SGD(0.3), keras.losses.Dice(axis=(1, 2, 3)))
    images = data.images()
    return model, data.of_arrays(images, (images > 0.6).astype("float32"))


@right()
def transfer_learning() -> Training:
    """A frozen base, in inference mode, and a new head."""
    base = keras.Sequential([keras.Input((8, 8, 1)), layers.Conv2D(4, 3), layers.ReLU()])
    base.trainable = False
    x = keras.Input((8, 8, 1))
    return _classifier(x, layers.GlobalAveragePooling2D()(base(x, training=False)))


@right()
def weights_shared_by_two_inputs() -> Training:
    """Change detection: one tower for both channels of an image."""
    x = keras.Input((8, 8, 2))
    tower = keras.Sequential([layers.Conv2D(3, 3, activation="tanh"), layers.Flatten()])
    first, second = tower(x[..., :1]), tower(x[..., 1:])
    return _classifier(x, layers.Subtract()([first, second]), channels=2)
