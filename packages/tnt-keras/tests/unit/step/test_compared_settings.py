"""What ranks compare of layers is read without a trace in the warnings of Python."""

from __future__ import annotations

import warnings

import keras
import pytest

from tnt_keras.step.settings import require_same_layers


def _warn() -> None:
    warnings.warn("shown once for each place", stacklevel=1)


def test_a_warning_that_was_shown_is_not_shown_again(capsys: pytest.CaptureFixture[str]) -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Lambda(lambda x: x)])
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.showwarning = lambda message, *_, **__: print(message)
        _warn()
        require_same_layers(model)  # Keras warns of the function that has no name
        _warn()
    assert capsys.readouterr().out == "shown once for each place\n"
