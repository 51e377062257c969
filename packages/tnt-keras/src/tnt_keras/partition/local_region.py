"""Local regions: functions that each lane applies to its own rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tnt_keras.keras_hooks.private_tensorflow import called_function

_LOCAL_REGION = "tnt_keras.local_region"
_numbers = itertools.count()

CALLS = {"PartitionedCall", "StatefulPartitionedCall"}
"""Operations that call a function once."""


def local_region(function: Callable[..., Any]) -> Any:
    """Return a function, without captures, that lanes apply to their own rows. Local."""
    # The one attribute that TensorFlow hands on to the functions it makes for gradients. It takes
    # functions of one name for implementations of one interface: so each has a name of its own.
    name = f"{_LOCAL_REGION}.{next(_numbers)}"
    return tf.function(function, autograph=False, experimental_attributes={"api_implements": name})


def is_local_region(function: Any) -> bool:
    """Return whether a function is a local region, or the gradient of one."""
    attributes = function.definition.attr
    return bool(attributes["api_implements"].s.decode().startswith(_LOCAL_REGION))


def has_second_derivatives(graph: Any) -> bool:
    """Return whether a graph takes derivatives of the gradients of local regions."""
    for operation in graph.get_operations():
        if operation.type in CALLS:
            function = called_function(graph, operation.get_attr("f").name)
            attributes = function.definition.attr
            is_gradient = attributes["forward_function_name"].s
            if is_local_region(function) and is_gradient and attributes["backward_function_name"].s:
                return True
    return False
