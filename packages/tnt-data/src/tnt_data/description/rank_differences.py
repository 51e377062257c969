"""Find what makes ranks see different samples, although repairs were made. No TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator

from tnt_data.description.draws import draws_differently
from tnt_data.description.transformation import JOINS_SAMPLES, Kind, Trait, Transformation


def find_differences(last: Transformation, size: int) -> list[str]:
    """Return what may still make ranks see different samples, in sentences. Local."""
    if size == 1:
        return []
    unrepaired = find_unchangeable(last)
    found: list[str] = []
    for transformation in last.walk():
        found += _faults_of_order(transformation, transformation in unrepaired)
        found += _faults_of_decisions(transformation)
    found += [
        f"{transformation.text} permutes whole batches with random numbers without a seed"
        for transformation in _on_batches(last)
        if "permutes" in transformation.function_contents and draws_differently(transformation)
    ]
    return list(dict.fromkeys(found))


def find_unchangeable(
    transformation: Transformation, reachable: bool = True
) -> set[Transformation]:
    """Return the transformations that cannot be rebuilt, and those that feed one of them. Local."""
    reachable = reachable and transformation.can_be_rebuilt
    found = set() if reachable else {transformation}
    for upstream in transformation.inputs:
        found |= find_unchangeable(upstream, reachable)
    return found


def _faults_of_order(transformation: Transformation, is_unrepaired: bool) -> Iterator[str]:
    if "shuffle" in transformation.function_contents and (
        is_unrepaired or not transformation.functions_lack_seed
    ):
        yield f"the functions of {transformation.text} shuffle without a seed"
    if transformation.lacks_seed and is_unrepaired:
        yield f"{transformation.text} has no seed and cannot be rebuilt with one"
    if transformation.is_nondeterministic and is_unrepaired:
        yield f"{transformation.text} has deterministic=False and cannot be rebuilt without"
    if transformation.depends_on_cores:
        text = transformation.text
        yield f"the order of {text} depends on the number of cores; give cycle_length"
    if _draws_by_python_in_order(transformation):
        yield (
            f"the Python code of {transformation.text} draws random numbers without setting a seed"
        )


def _draws_by_python_in_order(transformation: Transformation) -> bool:
    """Return whether Python code draws numbers by which ranks differ, and the serial run does not.

    Where calls overtake each other, no run draws the same again.
    """
    is_in_order = transformation.kind is Kind.GENERATOR or transformation.calls_in_order
    contents = transformation.function_contents
    return "random" in contents and not contents.isdisjoint({"generator", "python"}) and is_in_order


def _faults_of_decisions(transformation: Transformation) -> Iterator[str]:
    """Find random numbers that decide which samples there are, or from which branch they come."""
    text, deciding_inputs = (
        transformation.text,
        transformation.inputs[len(transformation.branches) :],
    )
    if Trait.FILTERS in transformation.traits:
        deciding_inputs = transformation.inputs
        if draws_differently(transformation):
            yield f"{text} decides with random numbers without a seed"
    for upstream in deciding_inputs:
        for one in upstream.walk():
            if one.is_map and draws_differently(one):
                yield (
                    f"{text} may decide with the random numbers of {one.text}, which have no seed"
                )


def _on_batches(last: Transformation) -> Iterator[Transformation]:
    """Yield the transformations after the batch, the last one first."""
    transformation = last
    while (
        transformation.kind not in (*JOINS_SAMPLES, Kind.UNBATCH)
        and len(transformation.inputs) == 1
    ):
        yield transformation
        transformation = transformation.inputs[0]
