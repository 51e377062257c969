"""Layers of half precision compute in float32 for a while, and are as before afterwards."""

import keras
import pytest

from tnt_keras.probe.runs.full_precision import computes_in_half_precision, computing_in_float32


def _model(policy: str) -> keras.Model:
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
    with computing_in_float32(model):
        assert _compute_dtypes(model) == ["float32", "float32"]
        assert keras.ops.all(model(x) == plain(x))
    assert _compute_dtypes(model) == [policy.removeprefix("mixed_"), "float32"]
    assert keras.ops.all(model(x) == before)
    assert not keras.ops.all(before == plain(x))


def test_policies_are_given_back_after_an_error() -> None:
    model = _model("mixed_bfloat16")
    with pytest.raises(ZeroDivisionError), computing_in_float32(model):
        raise ZeroDivisionError
    assert _compute_dtypes(model) == ["bfloat16", "float32"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("mixed_bfloat16", True), ("mixed_float16", True), ("bfloat16", False), ("float32", False)],
)
def test_models_with_a_mixed_policy_can_do_without_half_precision(
    policy: str, expected: bool
) -> None:
    assert computes_in_half_precision(_model(policy)) is expected
