"""Networks by name, those of `keras.applications` and small ones, and what a recipe changes.

The `keras` module is an argument, so that Keras 2 (`tf_keras`) can build them too.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from models.image_classification.cifar_resnet import CIFAR_RESNETS, build_cifar_resnet

APPLICATIONS = {
    "resnet50": "ResNet50",
    "resnet101": "ResNet101",
    "resnet152": "ResNet152",
    "resnet50v1.5": "ResNet50",
    "efficientnetV2B0": "EfficientNetV2B0",
    "efficientnetV2B1": "EfficientNetV2B1",
    "efficientnetV2B2": "EfficientNetV2B2",
    "efficientnetV2B3": "EfficientNetV2B3",
    "efficientnetV2S": "EfficientNetV2S",
    "efficientnetV2M": "EfficientNetV2M",
    "efficientnetV2L": "EfficientNetV2L",
}
"""Names in `keras.applications`."""
LEAST_IMAGE_SIZE = 32
"""Side of the smallest images that they take, in pixels."""
ARCHITECTURES = (*APPLICATIONS, *CIFAR_RESNETS)

_LAST_BATCH_NORM = re.compile(r"conv\d_block\d+_(3|cifar_2)_bn")
"""Of a residual block: of three convolutions, or of two in a small network."""
_FIRST_CONVOLUTIONS = re.compile(r"conv[345]_block1_([12])_conv")
"""Of the stages that halve the picture: 1 x 1, then 3 x 3."""


class Changes(NamedTuple):
    """What a recipe changes in a network.

    Attributes:
        weight_decay: Factor d of the term d / 2 * |w|^2 in the loss, over kernels and biases of
            convolutions and dense layers; batch normalisation has none.
        zero_gamma: Whether the last batch normalisation of each residual block begins with factors
            of 0, so that the block begins as the identity.
        synchronized_batch_norm: Whether batch normalisation takes its statistics over the batch of
            all ranks.
        dropout: Whether EfficientNets leave out features and blocks at random, other ones on each
            rank.
    """

    weight_decay: float = 0.0
    zero_gamma: bool = False
    synchronized_batch_norm: bool = False
    dropout: bool = True


def is_resnet(name: str) -> bool:
    """Return whether an architecture has residual blocks that `zero_gamma` knows. Pure."""
    return name.startswith("resnet")


def build_network(keras: Any, name: str, image_size: int, num_classes: int) -> Any:
    """Return an architecture with random weights, not compiled.

    It takes images from which the means of the channels were subtracted. EfficientNets scale pixels
    in layers of their own, and get the means back before.

    Args:
        keras: The module.
        name: One of `ARCHITECTURES`.
        image_size: Side of the images, in pixels.
        num_classes: Of the softmax.
    """
    shape = (image_size, image_size, 3)
    if name in CIFAR_RESNETS:
        return build_cifar_resnet(keras, CIFAR_RESNETS[name], shape, num_classes)
    images = keras.Input(shape)
    network = getattr(keras.applications, APPLICATIONS[name])(
        include_top=True,
        weights=None,
        input_tensor=images if is_resnet(name) else _pixels_of(keras, images),
        pooling=None,
        classes=num_classes,
        classifier_activation="softmax",
    )
    return keras.Model(images, network.output, name=network.name)


def _pixels_of(keras: Any, images: Any) -> Any:
    from models.image_classification.preprocessing import CHANNEL_MEANS

    return keras.layers.Rescaling(1.0, offset=list(CHANNEL_MEANS), name="pixels")(images)


def build_model(
    keras: Any, name: str, image_size: int, num_classes: int, changes: Changes | None = None
) -> Any:
    """Return an architecture as a recipe wants it, not compiled.

    Probabilities are float32, whatever the precision of the layers below.

    Args:
        keras: The module.
        name: One of `ARCHITECTURES`.
        image_size: Side of the images, in pixels.
        num_classes: Of the softmax.
        changes: By default none.
    """
    network = build_network(keras, name, image_size, num_classes)
    clone = _clone_function(keras, name, network.layers[-1].name, changes or Changes())
    return keras.models.clone_model(network, clone_function=clone)


def _clone_function(
    keras: Any, name: str, last_layer: str, changes: Changes
) -> Callable[[Any], Any]:
    decay = keras.regularizers.L2(changes.weight_decay / 2) if changes.weight_decay else None

    def clone(layer: Any) -> Any:
        config = layer.get_config()
        if layer.name == last_layer:
            config["dtype"] = "float32"
        if decay is not None:
            for key in ("kernel_regularizer", "depthwise_regularizer", "bias_regularizer"):
                if key in config:
                    config[key] = decay
        if isinstance(layer, keras.layers.BatchNormalization):
            if changes.synchronized_batch_norm:
                config["synchronized"] = True
            if changes.zero_gamma and _LAST_BATCH_NORM.fullmatch(layer.name):
                config["gamma_initializer"] = "zeros"
        if isinstance(layer, keras.layers.Dropout) and not changes.dropout:
            config["rate"] = 0.0
        if name == "resnet50v1.5":
            _move_stride(layer.name, config)
        return layer.__class__.from_config(config)

    return clone


def _move_stride(layer_name: str, config: dict[str, Any]) -> None:
    """Let the 3 x 3 convolution halve the picture, and not the 1 x 1 before it.

    Keras' network is that of He et al. (https://arxiv.org/abs/1512.03385); this one, which costs a
    bit more and errs less, is that of the published recipes.
    """
    match = _FIRST_CONVOLUTIONS.fullmatch(layer_name)
    if match:
        config["strides"] = (1, 1) if match[1] == "1" else (2, 2)
