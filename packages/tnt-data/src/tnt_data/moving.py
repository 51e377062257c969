"""Decides which steps before the batch a rank does for its own samples only. No TensorFlow.

Rows are picked before the samples are joined to a batch. Every step between the pick and the batch
then runs for one rank's samples instead of all, so the pick should lie as early as is exact.

    source - shuffle - map(decode) - repeat - map(augment) - batch           serial
    source - shuffle - repeat - pick - map(decode) - map(augment) - batch    one rank

A *map* makes one element of each, and of that one alone, so it may be *moved* to after the pick.
It may even be moved past steps that rearrange elements without looking at them (`repeat`, `take`,
`shuffle`, `zip`, ...): they do the same to elements that were not mapped yet. The search climbs
from the batch towards the source, collects what can be moved, and ends where a step looks into
elements, makes several of one, or must see all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tnt_data.pipeline import PASSES_ELEMENTS_UNSEEN, Kind, Step

Branch = tuple[tuple[Step, int], ...]

_MAY_NEED_MEMORY = "a shuffle after it would hold what it is given, which may take more memory"


@dataclass(frozen=True)
class MovedStep:
    """A step that is done after the pick.

    Attributes:
        step: The step.
        branch: The zips between the step and the batch, the one next to the batch first, each with
            the number of the input that the step feeds.
    """

    step: Step
    branch: Branch = ()


@dataclass(frozen=True)
class Move:
    """Which steps are moved to after the pick.

    Attributes:
        steps: The moved steps, sources first. All others stay where they are.
        apart: Steps that must not become neighbours of what comes before them when the steps
            between are moved away: TensorFlow fuses `shuffle` and `repeat` where they are
            neighbours, and a fused shuffle has another order from the second pass on.
        limits: Why nothing further was moved: where the search ended, with the reason.
    """

    steps: tuple[MovedStep, ...] = ()
    apart: frozenset[Step] = frozenset()
    limits: tuple[tuple[Step, str], ...] = ()

    @property
    def saves_work(self) -> bool:
        """Whether functions are moved, so that ranks run them for their own samples only."""
        return any(moved.step.is_map for moved in self.steps)


@dataclass(frozen=True)
class _Passed:
    """A rearranging step between the search and the batch, and what it would hold.

    Attributes:
        step: The step.
        mapped: The step whose elements it holds as long as nothing is moved.
    """

    step: Step
    mapped: Step


def plan_move(batch: Step) -> Move:
    """Plans what is moved to after the pick, for a step that joins samples. Local.

    Args:
        batch: The step that makes the global batches; the pick comes before it.
    """
    return _climb(batch.inputs[0], (), ())


def _climb(step: Step, branch: Branch, passed: tuple[_Passed, ...]) -> Move:
    """Searches from a step towards the sources."""
    found: tuple[MovedStep, ...] = ()
    apart: frozenset[Step] = frozenset()
    allowed = Move()  # what was found until the last place from which on moving is worth it
    while True:
        limit = _obstacle(step, branch, passed)
        if limit or step.kind is Kind.MERGE:
            break
        if _is_moved(step, branch, passed):
            found = (MovedStep(step, branch), *found)
            if step.is_map and passed and not step.changes_nothing:
                apart |= {passed[-1].step}
        else:
            passed = (*passed, _Passed(step, step))
        if step.is_map and _held_elements_stay_small(step.inputs[0], passed):
            allowed = Move(found, apart)
        step = step.inputs[0]
    for moved in found[: len(found) - len(allowed.steps)]:
        if moved.step.is_map:
            return replace(allowed, limits=((moved.step, _MAY_NEED_MEMORY),))
    if limit:
        return replace(allowed, limits=((step, limit),))
    ahead = _climb_branches(step, branch, passed)
    if _have_changes_in_common(step.inputs, ahead):
        return replace(allowed, limits=((step, "its branches have steps in common"),))
    return _join([*ahead, Move(found, apart) if any(one.steps for one in ahead) else allowed])


def _climb_branches(zipped: Step, branch: Branch, passed: tuple[_Passed, ...]) -> list[Move]:
    moves = []
    for number, feeding in enumerate(zipped.inputs):
        ahead = (*(replace(one, mapped=feeding) for one in passed), _Passed(zipped, feeding))
        moves.append(_climb(feeding, (*branch, (zipped, number)), ahead))
    return moves


def _have_changes_in_common(branches: Sequence[Step], moves: Sequence[Move]) -> bool:
    """Whether a step that has moved ones before it feeds another branch, which needs it as it is.

    A dataset object that feeds several branches is built once.
    """
    for branch, move in zip(branches, moves, strict=True):
        moved = {one.step.identity for one in move.steps}
        changed = {
            step.identity
            for step in branch.walk()
            if any(before.identity in moved for before in step.walk())
        }
        others = (other for other in branches if other is not branch)
        if any(step.identity in changed for other in others for step in other.walk()):
            return True
    return False


def _join(moves: list[Move]) -> Move:
    return Move(
        tuple(moved for move in moves for moved in move.steps),
        frozenset[Step]().union(*(move.apart for move in moves)),
        tuple(limit for move in moves for limit in move.limits),
    )


def _is_moved(step: Step, branch: Branch, passed: tuple[_Passed, ...]) -> bool:
    """Whether a step without obstacle is moved; others stay before the pick."""
    if step.kind is Kind.ARRANGE:
        return step.name in ("prefetch", "with_options") and not branch and not passed
    return step.kind is not Kind.SHUFFLE


def _obstacle(step: Step, branch: Branch, passed: tuple[_Passed, ...]) -> str:
    """Why the search ends here; empty if it goes on."""
    if not step.inputs:
        return "the source"
    if not step.can_be_rebuilt:
        return "it is not understood" if step.kind is Kind.OPAQUE else "it cannot be repeated"
    if step.is_map:
        return "it works on whole elements" if branch and step.name != "map" else step.needs_all
    if step.kind is Kind.CACHE:
        return _obstacle_of_cache(step, bool(branch or passed))
    if step.kind in (Kind.BATCH, Kind.PADDED_BATCH):
        return _obstacle_of_inner_batch(step, bool(branch or passed))
    if step.kind is Kind.MERGE:
        return "" if step.name == "zip" else "it decides which branch a sample comes from"
    return "" if step.kind in PASSES_ELEMENTS_UNSEEN else "it does not make one sample of each"


def _obstacle_of_cache(step: Step, is_rearranged: bool) -> str:
    if step.cache_file:
        return "its file may hold all samples from an earlier run"
    return "what it stores is rearranged in every pass" if is_rearranged else ""


def _obstacle_of_inner_batch(step: Step, is_rearranged: bool) -> str:
    """A short batch must stay the last one, since samples are counted to form batches again."""
    if step.batch is None or step.batch.batch_size is None:
        return "its batches differ in size"
    return "its batches are rearranged, and one may be short" if is_rearranged else ""


def _held_elements_stay_small(raw: Step, passed: tuple[_Passed, ...]) -> bool:
    """Whether shuffles hold no more memory when they hold the elements of `raw` instead."""
    return all(
        _is_known_to_be_smaller(raw, one.mapped) or _are_names(raw)
        for one in passed
        if one.step.kind is Kind.SHUFFLE
    )


def _is_known_to_be_smaller(raw: Step, mapped: Step) -> bool:
    if raw.element_bytes is None or mapped.element_bytes is None:
        return False
    return raw.element_bytes <= mapped.element_bytes


def _are_names(raw: Step) -> bool:
    """Whether elements come straight out of memory, such as file names: they all fit there."""
    while raw.kind in PASSES_ELEMENTS_UNSEEN and not raw.cache_file:
        raw = raw.inputs[0]
    return raw.kind is Kind.SOURCE and raw.name == "from_tensor_slices"
