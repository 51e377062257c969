"""Call traced functions without tracing the user's code again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private import TracedFunction


def as_callable(traced: TracedFunction, function: Any = None) -> Callable[..., Any]:
    """Return a Python function of elements that calls the traced one. Local."""
    # The user's Python code does not run again: it might have side effects, or make other
    # constants.
    captured = traced.function.captured_inputs if function else []

    def call(*arguments: Any) -> Any:
        element = arguments if type(traced.takes) is tuple else arguments[0]
        results = (function or traced.function)(*traced.to_tensors(element), *captured)
        return traced.from_tensors(results)

    callable_: Callable[..., Any] = tf.autograph.experimental.do_not_convert(call)
    return callable_
