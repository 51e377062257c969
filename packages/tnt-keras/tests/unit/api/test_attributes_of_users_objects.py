"""What distribution puts on users' models hides no name of the users' own."""

from __future__ import annotations

from collections.abc import Iterable

import keras
import numpy as np
import pytest

import tnt_keras

MIXINS = {
    keras.Model: type(tnt_keras.Model(keras.Sequential([keras.layers.Dense(1)]))),
}


def is_free(name: str) -> bool:
    """Whether the name is left to users: neither Python's own nor under our prefix."""
    return not name.startswith("_tnt_") and not (name.startswith("__") and name.endswith("__"))


def names_of(mixin: type) -> Iterable[str]:
    """Return all names that classes of this package put before those of Keras' class."""
    own = [cls for cls in mixin.__mro__ if cls.__module__.startswith("tnt_keras")]
    return {name for cls in own for name in vars(cls)}


@pytest.mark.parametrize("plain", MIXINS, ids=lambda plain: plain.__name__)
def test_methods_of_mixins_are_public_ones_of_keras_or_have_the_prefix(plain: type) -> None:
    own = {name for name in names_of(MIXINS[plain]) if is_free(name)}
    assert own  # the methods of Keras that are distributed
    assert {name for name in own if name.startswith("_") or not hasattr(plain, name)} == set()


def test_attributes_of_a_distributed_model_are_keras_ones_or_have_the_prefix() -> None:
    def trained(distribute: bool) -> keras.Model:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model = tnt_keras.Model(model) if distribute else model
        model.compile("adam", "mse")
        model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0)
        return model

    plain, distributed = trained(False), trained(True)
    assert {
        name for name in vars(distributed).keys() - vars(plain).keys() if is_free(name)
    } == set()
    assert vars(distributed.optimizer).keys() == vars(plain.optimizer).keys()
