"""Let layers compute in a finer floating-point type than theirs, whose rounding hides no rule."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from tnt_keras.keras_hooks.private import all_layers

_FINER = {
    "float32": ("mixed_bfloat16", "mixed_float16"),
    "float64": ("mixed_bfloat16", "mixed_float16", "float32"),
}
"""Which policies have finer types that do: the variables of all of them are in float32."""


def finer_types(model: keras.Model) -> list[str]:
    """Return the types in which some layers of a model can compute instead, finer and finer. Local.

    Args:
        model: A built model.
    """
    policies = {layer.dtype_policy.name for layer in all_layers(model)}
    return [finer for finer, coarser in _FINER.items() if not policies.isdisjoint(coarser)]


class _Float64(keras.DTypePolicy):
    """Compute in float64 with variables in float32, for which Keras has no name."""

    def __init__(self) -> None:
        super().__init__("float32")

    @property
    def compute_dtype(self) -> str:
        return "float64"


@contextlib.contextmanager
def computing_in(finer: str, model: keras.Model) -> Iterator[None]:
    """Let the layers that can do so compute in a finer type in a with-block. Local.

    Where many samples add up, as in the gradient of a bias of a convolution, a sum in bfloat16 can
    be off by a tenth, and a sum of parts by less. In float32 the gradients of a deep network with
    random weights, which normalises what hardly varies, can be off by as much. That cannot be told
    from a wrong rule.

    Args:
        finer: One of `finer_types`.
        model: A built model.
    """
    layers = [layer for layer in all_layers(model) if layer.dtype_policy.name in _FINER[finer]]
    policies = [layer.dtype_policy for layer in layers]
    for layer in layers:
        layer.dtype_policy = _Float64() if finer == "float64" else finer
    try:
        yield
    finally:
        for layer, policy in zip(layers, policies, strict=True):
            layer.dtype_policy = policy
