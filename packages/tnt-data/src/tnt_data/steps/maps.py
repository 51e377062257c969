"""Which steps make one element of each, and how the results depend on the order of calls."""

from __future__ import annotations

from tnt_data.steps.functions import is_identity
from tnt_data.steps.row_wise import is_row_wise
from tnt_data.tensorflow_private import OpenStep, is_op_determinism_enabled

MAPS = ("map", "parallel map")


def is_map(step: OpenStep) -> bool:
    """Whether a step makes exactly one element of each, and of that one alone. Local.

    Maps of TensorFlow 1 do not: they may end early.
    """
    return step.name == "ragged" or (
        step.name in MAPS and bool(step.argument("preserve_cardinality", False))
    )


def is_identity_map(step: OpenStep) -> bool:
    """Whether a step is a map that returns what it is given. Local."""
    return step.name in MAPS and is_identity(step.functions[0])


def is_row_wise_map(step: OpenStep) -> bool:
    """Whether a step is a map of which is known that it treats each row of a batch alone. Local."""
    return step.name in MAPS and is_map(step) and is_row_wise(step.functions[0])


def calls_in_order(step: OpenStep) -> bool:
    """Whether functions of a step are called for one element after the other. Local.

    Calls in parallel overtake each other, unless TensorFlow was told to be deterministic: it then
    calls functions with side effects in order.
    """
    calls = step.argument("num_parallel_calls", None)
    return calls is None or int(calls) == 1 or is_op_determinism_enabled()


def needs_all(step: OpenStep, hides: frozenset[str]) -> str:
    """Why a map must run for all samples; empty if it need not. Local.

    What depends on the order of calls is not defined in the serial run either if they overtake each
    other.

    Args:
        step: The step.
        hides: What `find_hidden` found in its functions.
    """
    if "state" in hides:
        return "its function changes variables or the like from sample to sample"
    if "seeded random" in hides and calls_in_order(step):
        return "its function draws seeded random numbers for one sample after the other"
    if "python" in hides and calls_in_order(step):
        return "its function is Python code that is called for one sample after the other"
    return ""
