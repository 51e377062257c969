"""The only module that uses what TensorFlow does not document.

These are the functions that all random functions of Keras and TensorFlow call in the end, the
method by which a `tf.random.Generator` advances its state, the function by which a variable tells
tapes and graphs that it is read, what `tf.function` lets AutoGraph make of a Python function,
where `tf.custom_gradient` puts the function that computes a gradient, and where a graph keeps the
functions that its operations call.

Other versions of TensorFlow than those of the `VersionGate` are noticed when the first of these
names is needed, or by `check_version`: importing this module neither fails nor logs.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.keras_hooks.patch import replaced
from tnt_keras.keras_hooks.version_gate import VersionGate

_GATE = VersionGate(
    "TensorFlow",
    "tensorflow",
    oldest=(2, 18),
    newest=(2, 21),
    warn=tnt_data.warn_of_unknown_release,  # once in a process, whichever package notices it
)

_RANDOM_OPERATIONS = {
    "tensorflow.python.framework.random_seed": ("get_seed",),
    "tensorflow.python.ops.gen_candidate_sampling_ops": (
        "all_candidate_sampler",
        "fixed_unigram_candidate_sampler",
        "learned_unigram_candidate_sampler",
        "log_uniform_candidate_sampler",
        "uniform_candidate_sampler",
    ),
    "tensorflow.python.ops.gen_random_ops": (
        "multinomial",
        "random_gamma",
        "random_poisson_v2",
        "random_shuffle",
        "random_standard_normal",
        "random_uniform",
        "random_uniform_int",
        "truncated_normal",
    ),
    "tensorflow.python.ops.gen_stateful_random_ops": (
        "rng_read_and_skip",
        "stateful_random_binomial",
    ),
    "tensorflow.python.ops.gen_stateless_random_ops": (
        "stateless_multinomial",
        "stateless_random_binomial",
        "stateless_random_poisson",
    ),
    "tensorflow.python.ops.gen_stateless_random_ops_v2": (
        "stateless_random_gamma_v3",
        "stateless_random_normal_v2",
        "stateless_random_uniform_full_int_v2",
        "stateless_random_uniform_int_v2",
        "stateless_random_uniform_v2",
        "stateless_shuffle",
        "stateless_truncated_normal_v2",
    ),
}
_random_operations: dict[tuple[str, str], Any] = {
    (module, name): _GATE.find(module, name)
    for module, names in _RANDOM_OPERATIONS.items()
    for name in names
}
_prepare_key_counter = _GATE.find(
    "tensorflow.python.ops.stateful_random_ops", "Generator", "_prepare_key_counter"
)

_RESOURCE_VARIABLES = "tensorflow.python.ops.resource_variable_ops"
_variable_accessed = _GATE.find(_RESOURCE_VARIABLES, "variable_accessed")

_gradient_registry = _GATE.find("tensorflow.python.framework.ops", "gradient_registry")
_gradients_by_name = _GATE.find("tensorflow.python.framework.registry", "Registry", "_registry")

_AUTOGRAPH_CONTEXT = "tensorflow.python.autograph.core.ag_ctx"
_ControlStatus = _GATE.find(_AUTOGRAPH_CONTEXT, "ControlStatusCtx")
_ENABLED = _GATE.find(_AUTOGRAPH_CONTEXT, "Status", "ENABLED")
_converted = _GATE.find(
    "tensorflow.python.eager.polymorphic_function.autograph_util", "py_func_from_autograph"
)
_Function = type(tf.function(lambda: None))
_get_function = _GATE.find("tensorflow.python.framework.ops", "Graph", "_get_function")
_AtomicFunction = _GATE.find(
    "tensorflow.python.eager.polymorphic_function.atomic_function", "AtomicFunction", "graph"
)


@functools.cache
def check_version() -> None:
    """Make sure that this version of TensorFlow can be used; only the first call does. Local.

    Raises:
        ImportError: If it is older or newer than all that are supported, or lacks a name.
    """
    _GATE.check(tf.__version__)


def registered_gradient(result: tf.Tensor) -> Any:
    """Return what computes a gradient, which from now on lives as long as the caller keeps it.

    TensorFlow keeps for ever what `tf.custom_gradient` was given in a graph, and all that it refers
    to. (The graph is no owner: Python's garbage collection does not see what it holds.) Local.

    Args:
        result: Of a function with `tf.custom_gradient`.

    Returns:
        The function; None if the result is eager, where TensorFlow keeps none.
    """
    if not hasattr(result, "graph"):
        return None
    check_version()
    name = result.op.get_attr("_gradient_op_type").decode()
    function = _gradient_registry.lookup(name)
    del _gradients_by_name.__get__(_gradient_registry)[name]
    reference: Callable[[], Any] = weakref.ref(function)
    tf.RegisterGradient(name)(lambda *arguments: reference()(*arguments))
    return function


def called_function(graph: Any, name: str) -> Any:
    """Return a function that an operation of a graph calls, with its `graph` and `function_def`. Local.

    Args:
        graph: That of the operation. Functions of the graphs around it are found as well.
        name: Of the function.

    Raises:
        LookupError: If there is none of this name.
    """
    check_version()
    while graph is not None:
        function = _get_function(graph, name)
        if function is not None:
            return function
        graph = getattr(graph, "outer_graph", None)
    raise LookupError(f"The graph has no function {name!r}.")


@contextlib.contextmanager
def replaced_random_operations(
    replace: Callable[[str, Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Replace the functions that all random functions of Keras and TensorFlow call. Local.

    Args:
        replace: Given name and function, the function that is used in the block. The names are
            those of operations, in lower case, and `get_seed`.
    """
    check_version()
    with contextlib.ExitStack() as stack:
        for (module, name), plain in _random_operations.items():
            stack.enter_context(
                replaced(importlib.import_module(module), name, replace(name, plain))
            )
        yield


@contextlib.contextmanager
def replaced_generator_advance(
    replace: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Iterator[None]:
    """Replace the method by which a `tf.random.Generator` advances its state for a draw. Local.

    All distributions use it but the binomial one, which is an operation.

    Args:
        replace: Given the method, the one that is used in the block. It gets the generator and the
            shape of the draw, an integer tensor, and returns key and counter. The method advances
            by the product of that shape.
    """
    check_version()
    with replaced(tf.random.Generator, "_prepare_key_counter", replace(_prepare_key_counter)):
        yield


@contextlib.contextmanager
def noted_variable_reads(note: Callable[[tf.Variable], None]) -> Iterator[None]:
    """Call a function with each variable that is read in a with-block. Local.

    Args:
        note: Gets the variable, of Keras what backs it, also when a graph is traced that reads it.
    """
    check_version()

    def accessed(variable: tf.Variable) -> None:
        note(variable)
        _variable_accessed(variable)

    module = importlib.import_module(_RESOURCE_VARIABLES)
    with replaced(module, "variable_accessed", accessed):
        yield


@contextlib.contextmanager
def autograph_of_inlined_functions() -> Iterator[None]:
    """Let AutoGraph convert `tf.function`s that run as part of a graph. Local.

    With `tf.config.run_functions_eagerly` TensorFlow calls their plain Python code, which fails for
    `if loss > 0:` in a graph.
    """
    check_version()
    plain = _Function.__call__

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly() or not function._autograph:
            return plain(function, *args, **kwargs)
        with _ControlStatus(status=_ENABLED):
            return _converted(function._python_function)(*args, **kwargs)

    with replaced(_Function, "__call__", call):
        yield
