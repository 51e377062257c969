"""Find out in which order functions are called, and whether results depend on it."""

from __future__ import annotations

from tnt_data.tensorflow_private import InspectedDataset, is_op_determinism_enabled


def calls_in_order(inspected: InspectedDataset) -> bool:
    """Return whether functions are called for one element after the other. Local."""
    # Calls in parallel overtake each other, unless the determinism of operations is enabled:
    # TensorFlow then calls functions with side effects in order.
    calls = inspected.argument("num_parallel_calls", None)
    return calls is None or int(calls) == 1 or is_op_determinism_enabled()


def reason_to_run_for_all(inspected: InspectedDataset, contents: frozenset[str]) -> str:
    """Return why a map must run for all samples; empty if it need not. Local."""
    # What depends on the order of calls is not defined in the serial run either if they overtake
    # each other.
    if "state" in contents:
        return "its function changes state, such as variables, from sample to sample"
    if "seeded random" in contents and calls_in_order(inspected):
        return "its function draws seeded random numbers for one sample after another"
    if "python" in contents and calls_in_order(inspected):
        return "its function is Python code that is called for one sample after another"
    return ""


def deterministic_argument(inspected: InspectedDataset) -> bool | None:
    """Return the argument `deterministic` for rebuilding a transformation; never False. Local."""
    # With `deterministic=False` two ranks would see samples in different orders.
    return None if inspected.argument("deterministic", "true") == "default" else True
