"""The only module that uses what TensorFlow does not document, and the gate for private names.

These are functions, variables and edges of graphs, and the files in which AutoGraph puts generated
code.

Versions are checked when the first of these names is needed: importing this module never fails.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import itertools
import linecache
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

import tnt_data
from tnt_keras.process.rank import logger


@dataclasses.dataclass
class VersionGate:
    """Find private names of one package, and refuse versions of it that lack them.

    `oldest` and `newest` are minor versions that the names were tested with; one that is not known
    is used with a warning if it has all the names. `warn` logs the warning of a newer version,
    where another package has more to say of it. Finding names neither fails nor logs.
    """

    package: str
    oldest: tuple[int, int]
    newest: tuple[int, int]
    warn: Callable[[], None] | None = None
    missing: list[str] = dataclasses.field(default_factory=list)  # names looked for in vain

    def find(self, module: str, *names: str) -> Any:
        """Return a (nested) name of a private module, None if this version lacks it. Local."""
        try:
            return functools.reduce(getattr, names, importlib.import_module(module))
        except (ImportError, AttributeError):
            self.missing.append(".".join((module, *names)))
            return None

    def check(self, version: str) -> None:
        """Refuse a version that is not supported or lacks names; warn of one not known. Local."""
        after = (self.newest[0], self.newest[1] + 1)
        first, last, end = (
            f"{major}.{minor}" for major, minor in (self.oldest, self.newest, after)
        )
        tested = f"{self.package} {first} to {last}"
        major, minor = (int(number) for number in version.split(".")[:2])
        if not self.oldest <= (major, minor) < (self.oldest[0] + 1, 0):
            raise ImportError(
                f"{self.package} {version} is not supported by tnt-keras, which was tested with "
                f"{tested}: `pip install '{self.package.lower()}>={first},<{end}'`."
            )
        if self.missing:
            raise ImportError(
                f"{self.package} {version} lacks {', '.join(self.missing)}, which tnt-keras "
                f"needs. It was tested with {tested}: install one of these, or a newer tnt-keras."
            )
        if (major, minor) <= self.newest:
            return
        if self.warn is not None:
            self.warn()
            return
        logger.warning(
            "%s %s is newer than all versions that tnt-keras was tested with (%s). "
            "[untested-version]",
            self.package,
            version,
            f"{first} to {last}",
        )


_GATE = VersionGate(
    "TensorFlow",
    oldest=(2, 18),
    newest=(2, 21),
    warn=tnt_data.warn_of_unknown_release,  # once in a process, whichever package notices it
)
_core = "tensorflow.python.framework"
_get_function = _GATE.find(f"{_core}.ops", "Graph", "_get_function")
_variable_creators = _GATE.find(f"{_core}.ops", "Graph", "_variable_creator_stack")
_add_control_input = _GATE.find(f"{_core}.ops", "Operation", "_add_control_input")
_function_def_to_graph = _GATE.find(f"{_core}.function_def_to_graph", "function_def_to_graph")
_atomic = "tensorflow.python.eager.polymorphic_function.atomic_function", "AtomicFunction"
_cached_definition = _GATE.find(*_atomic, "cached_definition")
_execute = _GATE.find("tensorflow.python.eager.execute", "execute")
_context = _GATE.find("tensorflow.python.eager.context", "context")
_loader = _GATE.find("tensorflow.python.autograph.pyct", "loader")
_load_source = _GATE.find("tensorflow.python.autograph.pyct.loader", "load_source")
_made_bodies: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


@functools.cache
def check_version() -> None:
    """Refuse a version of TensorFlow that is not supported, or lacks a name; only once. Local."""
    _GATE.check(tf.__version__)


class CalledFunction(NamedTuple):
    """A function that operations of a graph call."""

    graph: Any  # its body
    definition: Any  # the same as a protocol buffer, with attributes


def called_function(graph: Any, name: str) -> CalledFunction:
    """Return a function of a graph, or of the graphs around it, that an operation calls. Local."""
    check_version()
    while graph is not None:
        function = _get_function(graph, name)
        if function is not None:
            return CalledFunction(_body_of(function, graph), function.cached_definition)
        graph = getattr(graph, "outer_graph", None)
    raise LookupError(f"The graph has no function {name!r}.")


def _body_of(function: Any, graph: Any) -> Any:
    # TensorFlow keeps some functions for ever, and with them whatever is remembered for them.
    body = getattr(function, "graph", None) or _made_bodies.get(function)
    if body is None:  # made by TensorFlow's own code of the days of sessions
        with graph.as_default():  # which has the functions that this one calls
            body = _made_bodies[function] = _function_def_to_graph(function.cached_definition)
    return body


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


def add_control_input(operation: tf.Operation, before: tf.Operation) -> None:
    """Let an operation of a graph that is being built wait for one that was made later. Local."""
    check_version()
    _add_control_input(operation, before)


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
