"""Let layers that compute in half precision compute in float32, whose rounding hides no rule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras

from tnt_keras.keras_hooks.private import all_layers

_HALF = ("mixed_bfloat16", "mixed_float16")  # their variables are in float32


def computes_in_half_precision(model: keras.Model) -> bool:
    """Return whether a layer of a model has a mixed policy, so that it can do without. Local.

    Args:
        model: A built model.
    """
    return bool(_layers_in_half_precision(model))


@contextlib.contextmanager
def computing_in_float32(model: keras.Model) -> Iterator[None]:
    """Take half precision away from the layers with a mixed policy in a with-block. Local.

    Where many samples add up, as in the gradient of a bias of a convolution, a sum in bfloat16 can
    be off by a tenth, and a sum of parts by less: that cannot be told from a wrong rule.

    Args:
        model: A built model.
    """
    layers = _layers_in_half_precision(model)
    policies = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = "float32"
    try:
        yield
    finally:
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy


def _layers_in_half_precision(model: keras.Model) -> list[Any]:
    return [layer for layer in all_layers(model) if layer.dtype_policy.name in _HALF]
