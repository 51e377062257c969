"""Compare the first step of each kind with the serial one: a difference is a fault of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.partition import TracedStep, is_draw
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_size
from tnt_keras.step.options import StepOptions

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
    """Return what a step does that cannot be taken back or differs by intent, None if nothing.

    Args:
        traced: The step.
        options: How it computes.
    """
    for node in traced.flat.nodes:
        if node.type in _EFFECTS:
            return f"the effect of {node.type} cannot be taken back"
        if node.body is not None:
            return "batch normalisation takes the statistics of each rank's rows"
        if options.draws == "local" and is_draw(node.type):
            return "each rank draws random numbers of its own"
    return None


def compare_with_serial(
    name: str,
    traced: TracedStep,
    whole: Sequence[tf.Tensor],
    run: Callable[[], Any],
) -> None:
    """Run a step serially and on all ranks, and compare what both return and assign. Collective.

    Afterwards all variables have the values that they had.

    Args:
        name: Of the step, for the message.
        traced: The step.
        whole: All rows, as the traced step takes them.
        run: Runs the partitioned step on the same rows, on all ranks.
    """
    before = [variable.numpy() for variable in traced.variables]

    def outcome(step: Callable[[], Any]) -> list[np.ndarray[Any, Any]]:
        try:
            returned = tf.nest.flatten(step(), expand_composites=True)
            tensors = [each for each in returned if tf.is_tensor(each)]
            return [np.asarray(each) for each in (*tensors, *traced.variables)]
        finally:
            for variable, value in zip(traced.variables, before, strict=True):
                variable.assign(value)

    serial = outcome(lambda: traced.concrete_function(*whole))
    partitioned = outcome(run)
    names = [f"result {i}" for i in range(len(serial) - len(before))]
    names += [variable.name for variable in traced.variables]
    for what, one, other in zip(names, serial, partitioned, strict=True):
        if not _are_close(one, other):
            logger.error(
                "`%s` on several ranks is not the serial step, which is a fault of Tarantella: %s "
                "is %s in the serial step and %s here. Please report it.",
                name,
                what,
                _shown(one),
                _shown(other),
            )


def _are_close(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bound = _BOUNDS.get(str(one.dtype))
    if bound is None:
        return bool(np.array_equal(one, other))
    first, second = one.astype(np.float64), other.astype(np.float64)
    scale = float(np.max(np.abs(first), where=np.isfinite(first), initial=1e-3))
    return bool(np.allclose(first, second, rtol=0, atol=bound * scale, equal_nan=True))


def _shown(array: np.ndarray[Any, Any]) -> str:
    return np.array2string(array.reshape(-1)[:4], precision=6) + f" of shape {array.shape}"
