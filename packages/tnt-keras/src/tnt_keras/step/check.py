"""Compare the first step of each kind with the serial one: a difference is a fault of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf

from tnt_keras.partition import TracedStep, is_draw
from tnt_keras.partition.graph import Edge, past_aliases, users_line
from tnt_keras.process.output import logger
from tnt_keras.process.rank import get_size
from tnt_keras.step.owner import StepOptions
from tnt_keras.step.replicas import array_of

Array: TypeAlias = "np.ndarray[Any, Any]"

_EFFECTS = frozenset(
    {
        *("PyFunc", "PyFuncStateless", "EagerPyFunc", "Print", "PrintV2"),
        *("WriteScalarSummary", "WriteSummary", "WriteHistogramSummary", "WriteImageSummary"),
        *("WriteFile", "SaveV2", "MutableHashTableV2", "LookupTableInsertV2"),
        *("Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2"),
        *("RandomShuffle", "RandomStandardNormal", "RandomUniform", "RandomUniformInt"),
        "TruncatedNormal",  # like the others in this line and above it: their state is their own
    }
)
_BOUNDS = {"float16": 1e-2, "bfloat16": 6e-2, "float32": 1e-4, "float64": 1e-8}
"""Differences of rounding, relative to the largest entry, by dtype."""


def num_compared_rows() -> int:
    """Return how many rows a comparison takes at most. Local."""
    return 2 * get_size() + 1


def why_not_compared(traced: TracedStep, options: StepOptions) -> str | None:
    """Return what a step does that cannot be taken back or differs by intent, None if nothing."""
    for node in traced.flat.nodes:
        if node.type in _EFFECTS:
            return f"the effect of {node.type} cannot be taken back"
        if node.body is not None:
            return "batch normalisation takes the statistics of each rank's rows"
        if options.draws == "local" and is_draw(node.type):
            return "each rank draws random numbers of its own"
    return None


def compare_with_serial(
    name: str, traced: TracedStep, whole: Sequence[tf.Tensor], run: Callable[[], Any]
) -> None:
    """Run a step serially and on all ranks, and compare what both return and assign. Collective.

    Afterwards all variables have the values that they had. A difference is a fault if it is larger
    than rounding, and much larger than what a change of all numbers in their last digits does to
    the serial step: an optimizer may divide a gradient of nothing but rounding by its size.
    """
    before = [variable.numpy() for variable in traced.variables]

    def outcome(step: Callable[[], Any], values: Sequence[Any] = before) -> list[Array]:
        try:
            _assign(traced.variables, values)
            returned = tf.nest.flatten(step(), expand_composites=True)
            tensors = [each for each in returned if tf.is_tensor(each)]
            return [array_of(each) for each in (*tensors, *traced.variables)]
        finally:
            _assign(traced.variables, before)

    try:
        serial = outcome(lambda: traced.concrete_function(*whole))
    except tf.errors.OpError as error:  # on all ranks: the largest 7 of 5 rows, say
        first = str(error).partition("\n")[0]
        logger.info("%s is not checked: serially it fails on so few rows (%s)", name, first)
        return
    partitioned = outcome(run)
    bound = _bound(traced)
    if all(_are_close(one, other, bound) for one, other in zip(serial, partitioned, strict=True)):
        return
    given = [tf.constant(_with_other_digits(array_of(each), bound)) for each in whole]
    changed = outcome(
        lambda: traced.concrete_function(*given),
        [_with_other_digits(value, bound) for value in before],
    )
    for one, other, sensitive, what in zip(
        serial, partitioned, changed, _names(traced), strict=True
    ):
        if not _are_close(one, other, bound, sensitive):
            logger.error(
                "`%s` on several ranks is not the serial step, which is a fault of Tarantella: %s "
                "is %s in the serial step and %s here. Please report it.",
                name,
                what,
                _shown(one),
                _shown(other),
            )


def _assign(variables: Sequence[tf.Variable], values: Sequence[Any]) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)


def _names(traced: TracedStep) -> list[str]:
    """Return what results and variables are, with the operations that they come from."""
    flat = traced.flat
    names = [f"result {i} ({_described(edge)})" for i, edge in enumerate(flat.outputs)]
    handles = flat.arguments[len(flat.arguments) - len(traced.captures) :]
    places = {id(captured): n for captured, n in zip(traced.captures, handles, strict=True)}
    assigned = {
        node.inputs[0][0]: _described(node.inputs[-1])
        for node in flat.nodes
        if node.has_effect and node.inputs
    }
    for variable in traced.variables:
        handle = places.get(id(variable.handle))
        source = None if handle is None else assigned.get(handle)
        names.append(repr(variable.name) + (f" ({source})" if source else ""))
    return names


def _described(edge: Edge) -> str:
    node, _ = past_aliases(edge)
    line = users_line(node)
    return f"{node.type} {node.name!r}" + (f", {line}" if line else "")


def _bound(traced: TracedStep) -> float:
    """Return the bound of the shortest floats with which a step computes."""
    used = {dtype.name for node in traced.flat.nodes for dtype in node.dtypes}
    return max((bound for name, bound in _BOUNDS.items() if name in used), default=0.0)


def _with_other_digits(array: Array, bound: float) -> Array:
    """Return the array with changed last digits, if it holds floats."""
    if str(array.dtype) not in _BOUNDS:
        return array
    noise = np.random.default_rng(0).uniform(-1, 1, array.shape) * bound / 100
    return (array.astype(np.float64) * (1 + noise)).astype(array.dtype)


def _are_close(one: Array, other: Array, bound: float, sensitive: Array | None = None) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if str(one.dtype) not in _BOUNDS:
        moves = sensitive is not None and not np.array_equal(one, sensitive)
        return moves or bool(np.array_equal(one, other))
    first, second = one.astype(np.float64), other.astype(np.float64)
    allowed = bound * float(np.max(np.abs(first), where=np.isfinite(first), initial=1e-3))
    if sensitive is not None and sensitive.shape == one.shape:
        moved = np.abs(sensitive.astype(np.float64) - first)
        allowed += 10 * float(np.max(moved, where=np.isfinite(moved), initial=0))
    return bool(np.allclose(first, second, rtol=0, atol=allowed, equal_nan=True))


def _shown(array: Array) -> str:
    return np.array2string(array.reshape(-1)[:4], precision=6) + f" of shape {array.shape}"
