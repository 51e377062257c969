"""The lower blocks of MobileNetV2, and weights for them if there is no network to download any.

    python examples/tutorials/pretrained_base.py logs/base.weights.h5

trains them on the digits 0 to 4, in plain Keras.
"""

import sys

import keras
import numpy as np
from keras import layers
from sklearn.datasets import load_digits


def load_pictures(classes):
    """Pictures (n, 32, 32, 3) of some digits, from -1 to 1, and their labels from 0 on."""
    digits = load_digits()
    chosen = np.isin(digits.target, classes)
    pixels = digits.images[chosen, ..., np.newaxis] / 8 - 1
    pictures = np.kron(pixels, np.ones((1, 4, 4, 3))).astype("float32")
    return pictures, digits.target[chosen] - classes[0]


def build_base(weights=None):
    """MobileNetV2 up to its third block, which is enough for small pictures."""
    network = keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, include_top=False, weights=weights
    )
    return keras.Model(network.input, network.get_layer("block_2_add").output, name="base")


def with_head(base, num_classes):
    """The base with a new last layer."""
    pooled = layers.GlobalAveragePooling2D()(base.output)
    return keras.Model(base.input, layers.Dense(num_classes)(pooled))


def batch_norms_of(base):
    return [layer for layer in base.layers if isinstance(layer, layers.BatchNormalization)]


def main():
    keras.utils.set_random_seed(1)
    base = build_base()
    for layer in batch_norms_of(base):
        layer.momentum = 0.9  # the default takes thousands of steps
    model = with_head(base, 5)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(*load_pictures([0, 1, 2, 3, 4]), batch_size=32, epochs=6, verbose=2)
    base.save_weights(sys.argv[1])


if __name__ == "__main__":
    main()
