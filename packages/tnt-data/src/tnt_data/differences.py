"""What may make ranks see different samples in spite of all repairs. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

from tnt_data.pipeline import JOINS_SAMPLES, Kind, Step

_DECIDING_STEPS = ("filter", "take_while", "flat_map", "interleave", "group_by_window")
"""Steps whose functions decide which samples there are, so they must decide the same everywhere."""


def find_differences(last: Step, size: int) -> list[str]:
    """What may still make ranks see different samples, one sentence for each step. Local.

    Args:
        last: Last step of the pipeline.
        size: Number of ranks; a single one cannot differ from another.
    """
    if size == 1:
        return []
    unrepaired = beyond_repair(last)
    found: list[str] = []
    for step in last.walk():
        found += _faults_of_order(step, step in unrepaired)
        found += _faults_of_decisions(step)
    found += [
        f"{step.text} permutes whole batches by random numbers without a seed"
        for step in _steps_on_batches(last)
        if "permutes" in step.hides and draws_differently(step)
    ]
    return list(dict.fromkeys(found))


def beyond_repair(step: Step, reachable: bool = True) -> set[Step]:
    """Steps that stay as they are: not to be rebuilt, or feeding one that is not. Local."""
    reachable = reachable and step.can_be_rebuilt
    found = set() if reachable else {step}
    for feeding in step.inputs:
        found |= beyond_repair(feeding, reachable)
    return found


def draws_differently(step: Step) -> bool:
    """Whether functions of a step draw other numbers on other ranks. Local.

    They do without a seed, and with one if calls in parallel overtake each other.
    """
    return "random" in step.hides or ("seeded random" in step.hides and not step.calls_in_order)


def _faults_of_order(step: Step, is_unrepaired: bool) -> Iterator[str]:
    if "shuffle" in step.hides and (is_unrepaired or not step.lacks_seed_inside):
        yield f"the functions of {step.text} shuffle without a seed"
    if step.lacks_seed and is_unrepaired:
        yield f"{step.text} has no seed and cannot be rebuilt with one"
    if step.lacks_order and is_unrepaired:
        yield f"{step.text} has deterministic=False and cannot be rebuilt without"
    if step.depends_on_cores:
        yield f"the order of {step.text} depends on the number of cores; give cycle_length"
    if step.kind is Kind.GENERATOR and "random" in step.hides:
        yield f"the Python code of {step.text} draws random numbers and sets no seed"


def _faults_of_decisions(step: Step) -> Iterator[str]:
    """Random numbers that decide which samples there are, or which branch they come from."""
    if step.name in _DECIDING_STEPS and draws_differently(step):
        yield f"{step.text} decides by random numbers without a seed"
    deciding = step.inputs if step.name in _DECIDING_STEPS else step.inputs[len(step.branches) :]
    for feeding in deciding:
        for one in feeding.walk():
            if one.is_map and draws_differently(one):
                yield f"{step.text} may decide by the random numbers of {one.text}, without a seed"


def _steps_on_batches(last: Step) -> Iterator[Step]:
    """Steps after the batch."""
    step = last
    while step.kind not in (*JOINS_SAMPLES, Kind.UNBATCH) and len(step.inputs) == 1:
        yield step
        step = step.inputs[0]
