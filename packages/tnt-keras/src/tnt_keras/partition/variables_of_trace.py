"""Variables that a step makes while it is traced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import made_outside

OwnVariables = Callable[[], Sequence[tf.Variable]]
"""Tells which variables there are that change nothing of how Python goes on once they are made."""


def trace_with_variables(
    function: Callable[..., Any], specs: Sequence[Any], made_at_once: OwnVariables
) -> Any:
    """Trace a function that may make variables, as `tf.function` does, in one trace if possible.

    `tf.function` makes variables in the graph, moves their first values out of it, and traces the
    function again, in which Python may go another way: Keras' loss scale is a constant until the
    optimizer is built. A first value that is a function, as those of Keras are, can be had outside
    of the graph at once. The second trace is left out if only such variables were made, and all of
    them are `made_at_once`. A function that makes variables in its second trace, too, is a
    `ValueError`.
    """
    traces = 0
    made: list[tf.Variable] = []

    def make(make_next: Callable[..., Any], **options: Any) -> tf.Variable:
        if traces > 1:
            raise ValueError(
                f"A step makes the variable {options['name']!r} each time that it is traced. Make "
                "it before, or only the first time, and keep it, in an attribute of the model say."
            )
        if not callable(options["initial_value"]):
            return make_next(**options)
        made.append(made_outside(**options))
        return made[-1]

    def traced(*arguments: Any) -> Any:
        nonlocal traces
        traces += 1
        with tf.variable_creator_scope(make):
            return function(*arguments)

    first = tf.function(traced, autograph=False).get_concrete_function(*specs)
    if traces > 1 or not made:
        return first
    known = {id(variable) for variable in made_at_once()}
    if all(id(variable) in known for variable in made):
        return first
    return tf.function(traced, autograph=False).get_concrete_function(*specs)
