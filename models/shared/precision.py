"""What `--mixed_precision` means for layers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

POLICIES = {"none": "float32", "bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
"""Names of Keras' dtype policies. With `mixed_float16`, `compile` adds a `LossScaleOptimizer`."""


@contextmanager
def layers_of_precision(name: str) -> Iterator[None]:
    """Give layers that are made below this statement a precision. Local.

    Args:
        name: Value of `--mixed_precision`.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(POLICIES[name])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
