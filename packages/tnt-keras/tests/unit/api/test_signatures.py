"""The methods of a distributed model take Keras' arguments as Keras does, and ours by keyword."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import pytest

import tnt_keras

OURS = {
    "fit": {
        "tnt_micro_batch_size",
        "tnt_validation_micro_batch_size",
        "tnt_distribute_dataset",
        "tnt_distribute_validation_dataset",
        "tnt_read",
        "verify_inputs",
    },
    "evaluate": {"tnt_micro_batch_size", "tnt_distribute_dataset", "tnt_read", "verify_inputs"},
    "predict": {"tnt_micro_batch_size", "tnt_distribute_dataset", "tnt_read", "verify_inputs"},
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


AS_IN_KERAS = ["compile", "summary", "load_weights", "train_on_batch", "test_on_batch"]
AS_IN_KERAS += ["predict_on_batch", "train_step", "test_step", "predict_step"]
SAVING = ["save", "save_weights", "export"]


def _described(method: Any, without: str = "") -> list[tuple[str, object, object]]:
    parameters = inspect.signature(method).parameters.values()
    return [(p.name, p.default, p.kind) for p in parameters if p.name != without]


@pytest.mark.parametrize("method", [*AS_IN_KERAS, *SAVING])
def test_signatures_are_those_of_the_installed_keras(method: str) -> None:
    model = keras.Sequential([keras.Input((1,))])
    theirs = _described(getattr(model, method))
    own = _described(getattr(tnt_keras.Model(model), method), "tnt_save_all_devices")
    assert own == theirs


@pytest.mark.parametrize("method", SAVING)
def test_saving_on_all_ranks_is_asked_for_by_keyword(method: str) -> None:
    parameter = inspect.signature(getattr(tnt_keras.Model, method)).parameters[
        "tnt_save_all_devices"
    ]
    assert (parameter.default, parameter.kind) == (False, inspect.Parameter.KEYWORD_ONLY)


def test_methods_of_the_user_keep_their_signatures() -> None:
    class Own(keras.Model):
        def compile(self, d_optimizer: Any, g_optimizer: Any = None) -> None:
            """Take two optimizers."""

        def fit(self, data: Any, *, rounds: int = 3) -> None:
            """Train."""

        def train_step(self, pair: Any) -> None:
            """Do one step."""

    plain, model = Own(), tnt_keras.Model(Own())
    for name in ("compile", "fit", "train_step"):
        assert inspect.signature(getattr(model, name)) == inspect.signature(getattr(plain, name))
        assert getattr(model, name).__doc__ == getattr(plain, name).__doc__


@pytest.mark.parametrize("method", OURS)
def test_every_argument_is_documented(method: str) -> None:
    function = getattr(tnt_keras.Model, method)
    documented = inspect.getdoc(function)
    for name in inspect.signature(function).parameters:
        assert name in ("self", "kwargs") or f"\n    {name}: " in documented
