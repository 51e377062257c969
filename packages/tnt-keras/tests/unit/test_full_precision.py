"""Layers compute in a finer type for a while, and are as before afterwards."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from packaging.version import Version

from tnt_keras.probe.runs.full_precision import computing_in, finer_types

IS_OLD_KERAS = Version(keras.__version__) < Version("3.10")


def _model(policy: str) -> keras.Model:
    keras.utils.set_random_seed(1)
    inner = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, dtype=policy)])
    return keras.Sequential([keras.Input((3,)), inner, keras.layers.Dense(1, dtype="float32")])


def _compute_dtypes(model: keras.Model) -> list[str]:
    inner, last = model.layers
    return [inner.layers[0].compute_dtype, last.compute_dtype]


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_outputs_are_those_of_float32_inside_of_the_block_alone(policy: str) -> None:
    # Older versions of Keras round inputs to half precision all the same: these are exact in it.
    x = keras.ops.round(8 * keras.random.normal((5, 3), seed=1)) / 8
    model, plain = _model(policy), _model("float32")
    plain.set_weights(model.get_weights())
    before = model(x)
    with computing_in("float32", model):
        assert _compute_dtypes(model) == ["float32", "float32"]
        assert keras.ops.all(model(x) == plain(x))
    assert _compute_dtypes(model) == [policy.removeprefix("mixed_"), "float32"]
    assert keras.ops.all(model(x) == before)
    assert not keras.ops.all(before == plain(x))


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_float64_rounds_less_and_leaves_variables_as_they_are(policy: str) -> None:
    x = np.round(8 * np.random.default_rng(1).normal(size=(5, 3))) / 8
    model = _model(policy)
    kernel, bias, last_kernel, last_bias = (weights.astype("f8") for weights in model.get_weights())
    before = model(x)
    with computing_in("float64", model):
        assert _compute_dtypes(model) == ["float64", "float64"]
        outputs = model(x)
        assert outputs.dtype == tf.float64
        assert {variable.dtype for variable in model.variables} == {"float32"}
    expected = (x @ kernel + bias) @ last_kernel + last_bias
    # Older versions hand on between the models of a model in float32, if one has a mixed policy.
    is_exact = policy == "float32" or not IS_OLD_KERAS
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=1e-14 if is_exact else 1e-6)
    assert keras.ops.all(model(x) == before)


def test_policies_are_given_back_after_an_error() -> None:
    model = _model("mixed_bfloat16")
    with pytest.raises(ZeroDivisionError), computing_in("float64", model):
        raise ZeroDivisionError
    assert _compute_dtypes(model) == ["bfloat16", "float32"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("mixed_bfloat16", ["float32", "float64"]),
        ("mixed_float16", ["float32", "float64"]),
        ("float32", ["float64"]),
    ],
)
def test_layers_can_compute_in_finer_types_than_theirs(policy: str, expected: list[str]) -> None:
    assert finer_types(_model(policy)) == expected


def test_what_computes_in_float64_or_stores_half_precision_stays_as_it_is() -> None:
    layers = [keras.layers.Dense(2, dtype=dtype) for dtype in ("float64", "bfloat16")]
    assert [finer_types(keras.Sequential([layer])) for layer in layers] == [["float64"]] * 2
    model = keras.Sequential(layers)  # whose own policy is float32
    with computing_in("float64", model):
        assert [layer.compute_dtype for layer in layers] == ["float64", "bfloat16"]
