"""The methods of a distributed model take Keras' arguments as Keras does, and ours by keyword."""

from __future__ import annotations

import inspect

import keras
import pytest

import tnt_keras

OURS = {
    "fit": {
        "tnt_micro_batch_size",
        "tnt_validation_micro_batch_size",
        "tnt_distribute_dataset",
        "tnt_distribute_validation_dataset",
        "verify_inputs",
    },
    "evaluate": {"tnt_micro_batch_size", "tnt_distribute_dataset", "verify_inputs"},
    "predict": {"tnt_micro_batch_size", "tnt_distribute_dataset", "verify_inputs"},
}


@pytest.mark.parametrize("method", OURS)
def test_arguments_of_keras_come_in_their_order_with_their_defaults(method: str) -> None:
    own = inspect.signature(getattr(tnt_keras.Model, method)).parameters
    theirs = inspect.signature(getattr(keras.Model, method)).parameters
    by_position = inspect.Parameter.POSITIONAL_OR_KEYWORD

    def positional(parameters: object) -> list[tuple[str, object]]:
        return [(p.name, p.default) for p in parameters.values() if p.kind is by_position]

    assert positional(own) == positional(theirs)
    keyword_only = {p.name for p in own.values() if p.kind is inspect.Parameter.KEYWORD_ONLY}
    assert keyword_only == OURS[method]


@pytest.mark.parametrize("method", OURS)
def test_every_argument_is_documented(method: str) -> None:
    function = getattr(tnt_keras.Model, method)
    documented = inspect.getdoc(function)
    for name in inspect.signature(function).parameters:
        assert name in ("self", "kwargs") or f"\n    {name}: " in documented
