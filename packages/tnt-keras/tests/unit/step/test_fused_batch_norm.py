"""Fused batch normalisation is that of Keras, to rounding, and is used where it can be."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from cases import cases

import tnt_keras
from tnt_keras.step.batch_norm_region import fused_batch_norm

ROUNDING = {"float32": 2e-6, "float64": 0.0, "mixed_float16": 1e-3, "mixed_bfloat16": 8e-3}
BATCH_NORM = keras.layers.BatchNormalization


def layer_of(
    like: keras.layers.Layer | None = None, *, of: Any = BATCH_NORM, **arguments: Any
) -> Any:
    """A layer with weights that are not those of the beginning, or those of another."""
    rng = np.random.default_rng(4)
    layer = of(**arguments)
    layer.build((None, 3, 3, 3))
    weights = [rng.uniform(0.5, 2.0, weight.shape) for weight in layer.weights]
    layer.set_weights(weights if like is None else like.get_weights())
    return layer


def results(
    layer: Any, shape: tuple[int, ...], *, fused: bool, mean: float = 2.0, **call: Any
) -> list[np.ndarray]:
    """Output, gradients to inputs and weights, and moving statistics, in a graph."""
    rng = np.random.default_rng(7)
    x = tf.cast(rng.normal(mean, 1.5, shape), layer.compute_dtype)
    slope = tf.cast(rng.normal(size=shape), layer.compute_dtype)

    @tf.function
    def run(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape, fused_batch_norm(fused):
            tape.watch(x)
            y = layer(x, **call)
            loss = tf.reduce_sum(tf.cast(y * slope, tf.float32))
        return y, tape.gradient(loss, [x, *[v.value for v in layer.trainable_variables]])

    y, gradients = run(x)
    values = [y, *gradients, *[variable.value for variable in layer.non_trainable_variables]]
    return [np.asarray(tf.cast(value, tf.float64)) for value in values]


def num_fused(layer: Any, *shape: int | None, dtype: Any = tf.float32, **call: Any) -> int:
    """How many fused operations a graph of the layer has."""

    def run(x: tf.Tensor) -> Any:
        with fused_batch_norm():
            return layer(x, **call)

    spec = tf.TensorSpec(shape, dtype)
    operations = tf.function(run).get_concrete_function(spec).graph.get_operations()
    return sum(operation.type == "FusedBatchNormV3" for operation in operations)


def assert_equal(actual: list[np.ndarray], expected: list[np.ndarray], bound: float) -> None:
    for own, wanted in zip(actual, expected, strict=True):
        atol = bound * max(1.0, float(np.abs(wanted).max()))
        np.testing.assert_allclose(own, wanted, rtol=0, atol=atol)


OPTIONS: list[dict[str, Any]] = [{}, {"center": False}, {"scale": False, "momentum": 0.3}]


@cases(
    ("dtype", "axis", "options"),
    [
        *((dtype, -1, {}) for dtype in ROUNDING),
        *(("float32", axis, OPTIONS[1]) for axis in (3, 1)),
        ("mixed_bfloat16", 1, OPTIONS[2]),
    ],
    thorough=itertools.product(ROUNDING, [-1, 3, 1], OPTIONS),
)
def test_images_get_the_result_of_keras(dtype: str, axis: int, options: dict[str, Any]) -> None:
    layer = layer_of(axis=axis, dtype=dtype, **options)
    other = layer_of(layer, axis=axis, dtype=dtype, **options)
    shape = (5, 3, 4, 7) if axis == 1 else (5, 4, 7, 3)
    expected = results(layer, shape, fused=False, training=True)
    assert_equal(results(other, shape, fused=True, training=True), expected, ROUNDING[dtype])
    of_inputs = tf.as_dtype(layer.compute_dtype)
    is_fused = num_fused(other, None, *shape[1:], dtype=of_inputs, training=True)
    assert is_fused == (dtype != "float64")


@pytest.mark.parametrize(
    "shape", [(1, 1, 1, 3), (2, 1, 1, 3), (1, 5, 1, 3), (64, 1, 1, 3)], ids=str
)
def test_variances_of_few_values_move_as_in_keras(shape: tuple[int, ...]) -> None:
    layer = layer_of(momentum=0.5)
    other = layer_of(layer, momentum=0.5)
    expected = results(layer, shape, fused=False, training=True)
    assert_equal(results(other, shape, fused=True, training=True), expected, 2e-5)


def test_means_far_from_zero_cost_no_digits() -> None:
    layer, other = layer_of(), layer_of()
    expected = results(layer, (8, 6, 6, 3), fused=False, mean=300.0, training=True)
    actual = results(other, (8, 6, 6, 3), fused=True, mean=300.0, training=True)
    assert_equal(actual, expected, 1e-4)  # of inputs that single precision holds to 2e-5


@pytest.mark.parametrize("shape", [(5, 3), (5, 4, 3), (5, 2, 4, 2, 3)], ids=str)
def test_inputs_of_other_dimensions_are_left_to_keras(shape: tuple[int, ...]) -> None:
    layer, other = BATCH_NORM(), BATCH_NORM()
    expected = results(layer, shape, fused=False, training=True)
    assert_equal(results(other, shape, fused=True, training=True), expected, 0.0)
    assert num_fused(other, *shape, training=True) == 0


class Derived(BATCH_NORM):
    """A layer that a user has derived."""


@pytest.mark.parametrize(
    ("options", "call"),
    [
        ({}, {"training": False}),
        ({"trainable": False}, {"training": True}),
        ({"epsilon": 1e-6}, {"training": True}),
        ({"axis": 2}, {"training": True}),
        ({"of": Derived}, {"training": True}),
        ({}, {"training": True, "mask": np.ones((5, 3, 3), bool)}),
    ],
    ids=["inference", "frozen", "small epsilon", "other axis", "subclass", "mask"],
)
def test_what_cannot_be_fused_is_left_to_keras(
    options: dict[str, Any], call: dict[str, Any]
) -> None:
    layer = layer_of(**options)
    before = layer.get_weights()
    expected = results(layer, (5, 3, 3, 3), fused=False, **call)
    layer.set_weights(before)
    assert_equal(results(layer, (5, 3, 3, 3), fused=True, **call), expected, 0.0)
    assert num_fused(layer, 5, 3, 3, 3, **call) == 0


def test_gradients_of_gradients_are_those_of_keras() -> None:
    layer = layer_of()
    x = tf.constant(np.random.default_rng(2).normal(size=(4, 5, 5, 3)), tf.float32)

    def penalty(fused: bool) -> tf.Tensor:
        with tf.GradientTape() as tape, fused_batch_norm(fused):
            tape.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                total = tf.reduce_sum(layer(x, training=True) ** 3)
            loss = tf.reduce_sum(inner.gradient(total, x) ** 2)
        return tape.gradient(loss, x)

    expected = penalty(False).numpy()
    np.testing.assert_allclose(
        penalty(True).numpy(), expected, rtol=0, atol=2e-6 * np.abs(expected).max()
    )


def trained(wrap: Any, **arguments: Any) -> Any:
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            keras.layers.Conv2D(4, 3, use_bias=False),
            BATCH_NORM(momentum=0.8),
            keras.layers.ReLU(),
            BATCH_NORM(momentum=0.8, synchronized=True),
            keras.layers.Flatten(),
            keras.layers.Dense(1),
        ]
    )
    model = wrap(model)
    model.compile(keras.optimizers.SGD(0.01), "mse", **arguments)
    x = np.random.default_rng(1).normal(1.0, 2.0, (22, 6, 6, 2)).astype("float32")
    model.fit(x, x[:, 0, 0, 0], batch_size=5, epochs=2, shuffle=False, verbose=0)
    return model


def fused_operations(model: Any) -> int:
    spec = (tf.TensorSpec((None, 6, 6, 2)), tf.TensorSpec((None,)))
    graph = tf.function(model.train_step).get_concrete_function(spec).graph
    return sum(operation.type == "FusedBatchNormV3" for operation in graph.get_operations())


@cases("arguments", [{}], thorough=({"run_eagerly": True}, {"jit_compile": True}), ids=str)
def test_models_are_fused_unless_it_is_unwanted(arguments: dict[str, Any]) -> None:
    plain = trained(lambda model: model, **arguments)
    fused = trained(tnt_keras.Model, **arguments)
    unfused = trained(lambda model: tnt_keras.Model(model, fused_batch_norm=False), **arguments)
    assert [fused_operations(each) for each in (plain, fused, unfused)] == [0, 2, 0]
    assert_equal(fused.get_weights(), plain.get_weights(), 1e-5)
    assert_equal(unfused.get_weights(), plain.get_weights(), 0.0)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_fusing_is_switched_off_later_and_files_are_plain(tmp_path: Path) -> None:
    model = trained(tnt_keras.Model)
    assert tnt_keras.Model(model, fused_batch_norm=False) is model
    assert fused_operations(model) == 0
    tnt_keras.Model(model)
    assert fused_operations(model) == 0
    model.save(tmp_path / "model.keras")
    plain = keras.models.load_model(tmp_path / "model.keras")
    assert [type(layer) for layer in plain.layers] == [type(layer) for layer in model.layers]
    for own, loaded in zip(model.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_array_equal(own, loaded)
