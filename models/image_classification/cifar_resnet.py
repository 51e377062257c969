"""Residual networks for small images, https://arxiv.org/abs/1512.03385, section 4.2."""

from __future__ import annotations

from typing import Any

CIFAR_RESNETS = {"resnet8": 1, "resnet20": 3, "resnet32": 5}
"""Blocks of each of the three stages; a network of n has 6 n + 2 layers with weights."""
STAGE_WIDTHS = (16, 32, 64)


def build_cifar_resnet(
    keras: Any, blocks_per_stage: int, shape: tuple[int, int, int], num_classes: int
) -> Any:
    """Return a network with random weights, not compiled. Each stage begins with a projection.

    Args:
        keras: The module.
        blocks_per_stage: Residual blocks, of two convolutions each.
        shape: Height, width and channels of the images.
        num_classes: Of the softmax.
    """
    layers = keras.layers

    def convolve(inputs: Any, width: int, size: int, strides: int, name: str) -> Any:
        convolution = layers.Conv2D(
            width,
            size,
            strides,
            padding="same",
            use_bias=False,
            kernel_initializer="he_normal",
            name=f"{name}_conv",
        )
        normalization = layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{name}_bn")
        return normalization(convolution(inputs))

    def block(inputs: Any, width: int, strides: int, name: str, projects: bool) -> Any:
        shortcut = convolve(inputs, width, 1, strides, f"{name}_0") if projects else inputs
        hidden = layers.ReLU(name=f"{name}_1_relu")(
            convolve(inputs, width, 3, strides, f"{name}_1")
        )
        hidden = convolve(hidden, width, 3, 1, f"{name}_cifar_2")
        return layers.ReLU(name=f"{name}_out")(layers.Add(name=f"{name}_add")([shortcut, hidden]))

    images = keras.Input(shape)
    hidden = layers.ReLU(name="conv1_relu")(convolve(images, STAGE_WIDTHS[0], 3, 1, "conv1"))
    for stage, width in enumerate(STAGE_WIDTHS):
        for number in range(blocks_per_stage):
            strides = 2 if stage > 0 and number == 0 else 1
            name = f"conv{stage + 2}_block{number + 1}"
            hidden = block(hidden, width, strides, name, projects=number == 0)
    pooled = layers.GlobalAveragePooling2D(name="avg_pool")(hidden)
    probabilities = layers.Dense(num_classes, activation="softmax", name="predictions")(pooled)
    return keras.Model(images, probabilities, name=f"resnet{6 * blocks_per_stage + 2}")
