"""Networks have their published sizes, and a recipe changes what it says and nothing else."""

import functools

import keras
import numpy as np
import pytest
from cases import cases

from models.image_classification import architectures
from models.image_classification.architectures import ARCHITECTURES, Changes, build_model
from models.image_classification.preprocessing import CHANNEL_MEANS
from models.image_classification.smoothed_loss import (
    SmoothedSparseCategoricalCrossentropy,
    make_loss,
)
from models.shared.precision import layers_of_precision

PUBLISHED = {  # of 1000 classes, https://keras.io/api/applications
    "resnet50": 25_636_712,
    "resnet101": 44_707_176,
    "resnet152": 60_419_944,
    "efficientnetV2B0": 7_200_312,
    "efficientnetV2S": 21_612_360,
}
LONG = [name for name in PUBLISHED if name != "resnet50"]


@functools.cache
def network(name):
    return architectures.build_network(keras, name, 224, 1000)


@cases("name", ["resnet50"], thorough=LONG)
def test_a_network_has_its_published_number_of_parameters(name):
    assert network(name).count_params() == PUBLISHED[name]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_can_be_built(name):
    model = build_model(keras, name, 64, 10, Changes(1e-4, architectures.is_resnet(name), True))
    assert model.output.shape == (None, 10)


def test_resnet32_has_the_size_of_the_paper():
    weights = [
        layer.kernel
        for layer in build_model(keras, "resnet32", 32, 10).layers
        if isinstance(layer, keras.layers.Conv2D | keras.layers.Dense)
        and "_0_conv" not in layer.name
    ]
    assert len(weights) == 32
    assert sum(np.prod(kernel.shape) for kernel in weights) == pytest.approx(0.46e6, rel=0.01)


def test_a_recipe_decays_weights_but_not_batch_normalisation_and_zeroes_last_gammas():
    changes = Changes(weight_decay=2e-4, zero_gamma=True, synchronized_batch_norm=True)
    model = build_model(keras, "resnet8", 16, 10, changes)
    norms = [one for one in model.layers if isinstance(one, keras.layers.BatchNormalization)]
    assert all(one.synchronized and one.gamma_regularizer is None for one in norms)
    zeroed = [one.name for one in norms if not np.any(one.gamma.numpy())]
    assert zeroed == [f"conv{stage}_block1_cifar_2_bn" for stage in (2, 3, 4)]
    kernels = [one for one in model.trainable_variables if one.name == "kernel"]
    biases = [one for one in model.trainable_variables if one.name == "bias"]
    squares = sum(float(np.sum(np.square(one.numpy()))) for one in kernels + biases)
    assert float(sum(model.losses)) == pytest.approx(1e-4 * squares, rel=1e-5)


def test_zero_gamma_of_resnet50_is_in_each_of_its_sixteen_blocks():
    names = [
        layer.name
        for layer in network("resnet50").layers
        if architectures._LAST_BATCH_NORM.fullmatch(layer.name)
    ]
    assert len(names) == 16


def test_resnet50_of_the_recipes_halves_pictures_in_convolutions_of_three_by_three():
    model = build_model(keras, "resnet50v1.5", 64, 1000)
    strides = {
        layer.name: layer.strides
        for layer in model.layers
        if isinstance(layer, keras.layers.Conv2D) and layer.strides != (1, 1)
    }
    assert strides == {
        "conv1_conv": (2, 2),
        **{f"conv{n}_block1_{which}_conv": (2, 2) for n in (3, 4, 5) for which in (0, 2)},
    }
    assert model.count_params() == PUBLISHED["resnet50"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["efficientnetV2B0", "efficientnetV2S"])
def test_an_efficientnet_sees_the_pixels_that_its_own_scaling_is_for(name):
    model = build_model(keras, name, 64, 3)
    of_pixels = getattr(keras.applications, architectures.APPLICATIONS[name])(
        weights=None, input_shape=(64, 64, 3), classes=3
    )
    of_pixels.set_weights(model.get_weights())
    pixels = np.random.default_rng(0).integers(256, size=(2, 64, 64, 3)).astype(np.float32)
    np.testing.assert_allclose(
        model(pixels - np.array(CHANNEL_MEANS, np.float32)), of_pixels(pixels), rtol=1e-4
    )


@cases(("changes", "largest"), [(Changes(dropout=False), 0)], thorough=[(Changes(), 0.2)])
def test_without_dropout_an_efficientnet_leaves_nothing_out(changes, largest):
    layers = build_model(keras, "efficientnetV2B0", 32, 3, changes).layers
    rates = [layer.rate for layer in layers if isinstance(layer, keras.layers.Dropout)]
    assert max(rates) == largest


@pytest.mark.parametrize("precision", ["none", "bfloat16", "float16"])
def test_layers_compute_in_the_precision_that_is_asked_for_and_probabilities_in_float32(precision):
    with layers_of_precision(precision):
        model = build_model(keras, "resnet8", 16, 10)
    expected = "float32" if precision == "none" else precision
    assert model.get_layer("conv2_block1_1_conv").compute_dtype == expected
    assert model.output.dtype == "float32"
    assert all(variable.dtype == "float32" for variable in model.trainable_variables)
    assert keras.config.dtype_policy().name == "float32"


def test_smoothed_labels_give_the_formula_and_zero_gives_the_loss_of_keras():
    probabilities = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], np.float32)
    labels = np.array([0, 1], np.int32)
    logs = -np.log(probabilities)
    expected = np.mean(0.9 * logs[[0, 1], labels] + 0.1 * logs.mean(axis=1))
    loss = make_loss(0.1)
    assert float(loss(labels, probabilities)) == pytest.approx(expected, rel=1e-5)
    again = SmoothedSparseCategoricalCrossentropy.from_config(loss.get_config())
    assert again.label_smoothing == 0.1
    assert isinstance(make_loss(0.0), keras.losses.SparseCategoricalCrossentropy)
