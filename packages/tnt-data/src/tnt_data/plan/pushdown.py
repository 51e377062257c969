"""Decide which transformations before the batch run for a rank's own samples only. No TensorFlow.

Rows are picked before the samples are joined to a batch. Every transformation between the pick and
the batch then runs for one rank's samples instead of all, so the pick should lie as early as is
exact.

    source - shuffle - map(decode) - repeat - map(augment) - batch           serial
    source - shuffle - repeat - pick - map(decode) - map(augment) - batch    one rank

A *map* makes one element of each, and of that one alone, so it may be *moved* to after the pick.
It may even be moved past transformations that rearrange elements without looking at them
(`repeat`, `take`, `shuffle`, `zip`, ...): they do the same to elements that were not mapped yet.
The search goes from the batch towards the source, collects what can be moved, and ends where a
transformation looks into elements, makes several of one, or must see all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tnt_data.description.transformation import PASSES_ELEMENTS_UNSEEN, Kind, Trait, Transformation

Branch = tuple[tuple[Transformation, int], ...]

_MAY_NEED_MEMORY = "a shuffle after it would hold its results, which may take more memory"


@dataclass(frozen=True)
class Moved:
    """A transformation that is done after the pick."""

    transformation: Transformation
    # zips up to the batch, next to the batch first, with the number of the input
    branch: Branch = ()


@dataclass(frozen=True)
class Pushdown:
    """Which transformations are moved to after the pick."""

    # `apart` must not become neighbours of what comes before them when those between are moved
    # away: TensorFlow fuses `shuffle` and `repeat` where they are neighbours, and a fused shuffle
    # has another order from the second pass on.

    moved: tuple[Moved, ...] = ()  # sources first; all others stay where they are
    apart: frozenset[Transformation] = frozenset()
    # why nothing further was moved: where the search ended, with the reason
    limits: tuple[tuple[Transformation, str], ...] = ()

    @property
    def saves_work(self) -> bool:
        """Whether functions are moved, so that ranks run them for their own samples only."""
        return any(one.transformation.is_map for one in self.moved)


@dataclass(frozen=True)
class _Passed:
    """A shuffle, say, between the search and the batch, and the elements that it would hold."""

    transformation: Transformation
    mapped: Transformation  # whose elements it holds as long as nothing is moved


def plan_pushdown(batch: Transformation) -> Pushdown:
    """Plan what is moved to after the pick, for a transformation that joins samples. Local."""
    return _search(batch.inputs[0], (), ())


def _search(
    transformation: Transformation, branch: Branch, passed: tuple[_Passed, ...]
) -> Pushdown:
    """Search from a transformation towards the sources."""
    found: tuple[Moved, ...] = ()
    apart: frozenset[Transformation] = frozenset()
    allowed = Pushdown()  # what was found until the last place from which on moving is worth it
    while True:
        limit = _obstacle(transformation, branch, passed)
        if limit or transformation.kind is Kind.MERGE:
            break
        if _is_moved(transformation, branch, passed):
            found = (Moved(transformation, branch), *found)
            if transformation.is_map and passed and not transformation.changes_nothing:
                apart |= {passed[-1].transformation}
        else:
            passed = (*passed, _Passed(transformation, transformation))
        if transformation.is_map and _held_elements_stay_small(transformation.inputs[0], passed):
            allowed = Pushdown(found, apart)
        transformation = transformation.inputs[0]
    for moved in found[: len(found) - len(allowed.moved)]:
        if moved.transformation.is_map:
            return replace(allowed, limits=((moved.transformation, _MAY_NEED_MEMORY),))
    if limit:
        return replace(allowed, limits=((transformation, limit),))
    ahead = _search_branches(transformation, branch, passed)
    if _have_changes_in_common(transformation.inputs, ahead):
        limit = "its branches have transformations in common"
        return replace(allowed, limits=((transformation, limit),))
    is_worth_it = any(one.moved for one in ahead)
    return _join([*ahead, Pushdown(found, apart) if is_worth_it else allowed])


def _search_branches(
    zipped: Transformation, branch: Branch, passed: tuple[_Passed, ...]
) -> list[Pushdown]:
    pushdowns = []
    for number, upstream in enumerate(zipped.inputs):
        ahead = (*(replace(one, mapped=upstream) for one in passed), _Passed(zipped, upstream))
        pushdowns.append(_search(upstream, (*branch, (zipped, number)), ahead))
    return pushdowns


def _have_changes_in_common(
    branches: Sequence[Transformation], pushdowns: Sequence[Pushdown]
) -> bool:
    """Return whether what comes after moved transformations feeds another branch too."""
    # A dataset object that feeds several branches is built once, and the other needs it as it is.
    for branch, pushdown in zip(branches, pushdowns, strict=True):
        moved = {one.transformation.identity for one in pushdown.moved}
        changed = {
            one.identity
            for one in branch.walk()
            if any(before.identity in moved for before in one.walk())
        }
        others = (other for other in branches if other is not branch)
        if any(one.identity in changed for other in others for one in other.walk()):
            return True
    return False


def _join(pushdowns: list[Pushdown]) -> Pushdown:
    return Pushdown(
        tuple(moved for one in pushdowns for moved in one.moved),
        frozenset[Transformation]().union(*(one.apart for one in pushdowns)),
        tuple(limit for one in pushdowns for limit in one.limits),
    )


def _is_moved(transformation: Transformation, branch: Branch, passed: tuple[_Passed, ...]) -> bool:
    """Return whether a transformation without obstacle is moved; others stay before the pick."""
    if transformation.kind is Kind.ARRANGE:
        return Trait.SAME_FOR_PARTS in transformation.traits and not branch and not passed
    return transformation.kind is not Kind.SHUFFLE


def _obstacle(transformation: Transformation, branch: Branch, passed: tuple[_Passed, ...]) -> str:
    """Return why the search ends here; empty if it goes on."""
    if not transformation.inputs:
        return "the source"
    if not transformation.can_be_rebuilt:
        is_unknown = transformation.kind is Kind.OPAQUE
        return "it is not understood" if is_unknown else "it cannot be rebuilt"
    if transformation.is_map:
        is_too_large = branch and not transformation.can_map_parts
        return (
            "it works on whole elements" if is_too_large else transformation.reason_to_run_for_all
        )
    if transformation.kind is Kind.CACHE:
        return _obstacle_of_cache(transformation, bool(branch or passed))
    if transformation.kind in (Kind.BATCH, Kind.PADDED_BATCH):
        return _obstacle_of_inner_batch(transformation, bool(branch or passed))
    if transformation.kind is Kind.MERGE:
        pairs = Trait.ZIPS in transformation.traits
        return "" if pairs else "it decides which branch a sample comes from"
    is_unseen = transformation.kind in PASSES_ELEMENTS_UNSEEN
    return "" if is_unseen else "it does not make one sample out of each"


def _obstacle_of_cache(transformation: Transformation, is_rearranged: bool) -> str:
    if transformation.cache_file:
        return "its file may hold all samples from an earlier run"
    return "what it stores is rearranged in every pass" if is_rearranged else ""


def _obstacle_of_inner_batch(transformation: Transformation, is_rearranged: bool) -> str:
    """Return why a batch before the last one stays where it is; empty if it is moved."""
    # A short batch must stay the last one, since samples are counted to form batches again.
    if transformation.batch is None or transformation.batch.batch_size is None:
        return "its batches differ in size"
    return "its batches are rearranged, and one may be short" if is_rearranged else ""


def _held_elements_stay_small(raw: Transformation, passed: tuple[_Passed, ...]) -> bool:
    """Return whether shuffles hold no more memory when they hold the elements of `raw` instead."""
    return all(
        _is_known_to_be_smaller(raw, one.mapped) or _are_names(raw)
        for one in passed
        if one.transformation.kind is Kind.SHUFFLE
    )


def _is_known_to_be_smaller(raw: Transformation, mapped: Transformation) -> bool:
    if raw.element_bytes is None or mapped.element_bytes is None:
        return False
    return raw.element_bytes <= mapped.element_bytes


def _are_names(raw: Transformation) -> bool:
    """Return whether elements come straight out of memory, as file names do: they all fit there."""
    while raw.kind in PASSES_ELEMENTS_UNSEEN and not raw.cache_file:
        raw = raw.inputs[0]
    return Trait.IN_MEMORY in raw.traits
