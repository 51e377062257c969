"""The only module that uses what TensorFlow does not document.

These are functions and variables of graphs, and the files in which AutoGraph puts generated code.

Versions are checked when the first of these names is needed: importing this module never fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import linecache
import os
import sys
import weakref
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.keras_hooks.version_gate import VersionGate

_GATE = VersionGate(
    "TensorFlow",
    "tensorflow",
    oldest=(2, 18),
    newest=(2, 21),
    warn=tnt_data.warn_of_unknown_release,  # once in a process, whichever package notices it
)


_get_function = _GATE.find("tensorflow.python.framework.ops", "Graph", "_get_function")
_AtomicFunction = _GATE.find(
    "tensorflow.python.eager.polymorphic_function.atomic_function",
    "AtomicFunction",
    "cached_definition",
)
_function_def_to_graph = _GATE.find(
    "tensorflow.python.framework.function_def_to_graph", "function_def_to_graph"
)
_variable_creators = _GATE.find(
    "tensorflow.python.framework.ops", "Graph", "_variable_creator_stack"
)
_execute = _GATE.find("tensorflow.python.eager.execute", "execute")
_context = _GATE.find("tensorflow.python.eager.context", "context")
_loader = _GATE.find("tensorflow.python.autograph.pyct", "loader")
_load_source = _GATE.find("tensorflow.python.autograph.pyct.loader", "load_source")
_made_bodies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@functools.cache
def check_version() -> None:
    """Refuse a version of TensorFlow that is not supported, or lacks a name; only once. Local."""
    _GATE.check(tf.__version__)


@dataclasses.dataclass(frozen=True, slots=True)
class CalledFunction:
    """A function that operations of a graph call."""

    graph: Any  # its body
    definition: Any  # the same as a protocol buffer, with attributes


def called_function(graph: Any, name: str) -> CalledFunction:
    """Return a function of a graph, or of the graphs around it, that an operation calls. Local."""
    check_version()
    while graph is not None:
        function = _get_function(graph, name)
        if function is not None:
            return _called(graph, function)
        graph = getattr(graph, "outer_graph", None)
    raise LookupError(f"The graph has no function {name!r}.")


def _called(graph: Any, function: Any) -> CalledFunction:
    # TensorFlow keeps some functions for ever, and with them whatever is remembered for them.
    body = getattr(function, "graph", None) or _made_bodies.get(function)
    if body is None:  # made by TensorFlow's own code of the days of sessions
        with graph.as_default():  # which has the functions that this one calls
            body = _made_bodies[function] = _function_def_to_graph(function.cached_definition)
    return CalledFunction(body, function.cached_definition)


def made_outside(**options: Any) -> tf.Variable:
    """Make a `tf.Variable` outside of the graph that is traced, which does not notice. Local."""
    check_version()
    traced = tf.compat.v1.get_default_graph()  # also in `tf.init_scope`, as far as creators go
    creators = traced._variable_creator_stack
    traced._variable_creator_stack = []
    try:
        with tf.init_scope():
            return tf.Variable(**options)
    finally:
        traced._variable_creator_stack = creators


def executed(
    operation_type: str, inputs: list[tf.Tensor], attributes: dict[str, Any], num_outputs: int
) -> list[tf.Tensor]:
    """Run an operation now, given all its inputs in one list and all its attributes. Local."""
    check_version()
    flat = tuple(itertools.chain.from_iterable(attributes.items()))
    return list(_execute(operation_type, num_outputs, inputs, flat, _context()))


def keep_generated_code_in_memory() -> None:
    """Remove the file of each function that AutoGraph generates as soon as it is read. Local.

    AutoGraph removes them when Python ends, but not those of a rank that is killed.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("__autograph_generated_file"):
            _move_into_memory(str(module.__file__))
    if _load_source is not None:
        _loader.load_source = _load_into_memory


def _load_into_memory(source: str, delete_on_exit: bool) -> tuple[Any, str]:
    module, file = _load_source(source, False)
    _move_into_memory(file)
    return module, file


def _move_into_memory(file: str) -> None:
    lines = linecache.getlines(file)
    # Without a time it stays although there is no file, for tracebacks and debuggers.
    linecache.cache[file] = (sum(map(len, lines)), None, lines, file)
    with contextlib.suppress(FileNotFoundError):
        os.remove(file)
