"""Decide where and how a pipeline is split. No TensorFlow.

The split lies as early as is exact. Seen from the end, transformations that never look into an
element (prefetch, repeat, cache, ...) do the same to micro-batches, so the split passes them, and
so do functions of which is known that they treat each row of a batch alone. It stops at the first
other one: a function of the user may mix the samples of a batch and must see all of it. If the
split stops where batches are made, and rows do not depend on each other, this rank's rows are
picked before they are joined (`Way.PICK`), as far before as `tnt_data.plan.pushdown` allows;
otherwise they are cut out of the finished batch (`Way.SLICE`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tnt_data.description.batching import Batching, judge_batching
from tnt_data.description.draws import draws_differently
from tnt_data.description.transformation import (
    JOINS_SAMPLES,
    PASSES_ELEMENTS_UNSEEN,
    Kind,
    Transformation,
)
from tnt_data.plan.pushdown import Pushdown, plan_pushdown

PICK_FROM_BYTES = 1024 * 1024
"""Smaller global batches are cut where no function is saved: copying them costs less (measured)."""


class Way(enum.Enum):
    """How a rank gets its rows."""

    PICK = "rows are picked before they are joined to a batch"
    SLICE = "rows are cut out of the finished global batch"


@dataclass(frozen=True)
class SplitPlan:
    """What is done with a pipeline; the same on every rank."""

    # from the end of the pipeline to the split, which is the last of them
    chain: tuple[Transformation, ...]
    batching: Batching
    way: Way
    reason: str
    pushdown: Pushdown  # what is done after the pick, if rows are picked

    @property
    def split(self) -> Transformation:
        """Where the pipeline is split: before this when picking, after it when cutting."""
        return self.chain[-1]

    @property
    def repeated(self) -> tuple[Transformation, ...]:
        """Functions that every rank runs for all samples, since rows are cut out of batches."""
        if self.way is Way.PICK:
            return ()
        return tuple(one for one in self.split.walk() if one.is_map and not one.changes_nothing)

    @property
    def random_before_split(self) -> tuple[Transformation, ...]:
        """Functions that draw other numbers on each rank, before the place where rows are taken."""
        moved = {one.transformation.identity for one in self.pushdown.moved}
        first = self.split.inputs[0] if self.way is Way.PICK else self.split
        return tuple(
            one for one in first.walk() if one.identity not in moved and draws_differently(one)
        )


def plan_split(
    last: Transformation, size: int, pick_from_bytes: int = PICK_FROM_BYTES
) -> SplitPlan:
    """Plan the split of a batched pipeline. Local; every rank finds the same."""
    chain, batching = [last], judge_batching(last)
    while _may_follow_the_split(chain[-1], batching):
        chain.append(chain[-1].inputs[0])
    split = chain[-1]
    obstacle = "a single rank takes whole batches" if size == 1 else _obstacle_to_pick(split)
    pushdown = Pushdown() if obstacle else plan_pushdown(split)
    if not (obstacle or pushdown.saves_work):
        obstacle = _reason_not_to_pick(split, pick_from_bytes)
    way = Way.SLICE if obstacle else Way.PICK
    reason = obstacle or f"the rows of {split.text} do not depend on each other"
    return SplitPlan(tuple(chain), batching, way, reason, pushdown)


def _may_follow_the_split(transformation: Transformation, batching: Batching) -> bool:
    """Return whether a transformation may run on micro-batches instead of global batches."""
    # A cache on disk may hold whole batches of an earlier run, so it stays before the split. Where
    # shapes alone say that the last elements are batches, those before a map must be some too.
    if not transformation.can_be_rebuilt:
        return False
    if transformation.is_row_wise:
        has_batches = batching.is_certain or transformation.inputs[0].first_dimension.is_common
        return has_batches and not transformation.reason_to_run_for_all
    return transformation.kind in PASSES_ELEMENTS_UNSEEN and not transformation.cache_file


def _obstacle_to_pick(transformation: Transformation) -> str:
    """Return why rows have to be cut out of whole batches; empty if they can be picked."""
    if transformation.kind is Kind.OPAQUE:
        return f"{transformation.text} is not understood"
    if transformation.kind is Kind.FUNCTION:
        return f"{transformation.text} comes after the batch and may mix the samples of a batch"
    if transformation.kind not in JOINS_SAMPLES:
        return f"after {transformation.text} the samples of a batch are already joined"
    batch = transformation.batch
    if transformation.kind is Kind.OTHER_BATCH or batch is None or batch.batch_size is None:
        return f"{transformation.text} joins samples in its own way"
    if not batch.rows_are_independent:
        return f"the padding of {transformation.text} depends on the whole batch"
    return ""


def _reason_not_to_pick(transformation: Transformation, pick_from_bytes: int) -> str:
    """Return why it does not pay to pick rows, where it saves copies only; empty if it does."""
    batch, text = transformation.batch, transformation.text
    assert batch is not None
    assert batch.batch_size is not None
    if batch.sample_bytes is None:
        return (
            f"picking rows would save no function call before {text}, and the size of its "
            "batches is unknown"
        )
    num_bytes = batch.sample_bytes * batch.batch_size
    if num_bytes < pick_from_bytes:
        return (
            f"picking rows would save no function call before {text}, and a batch of {num_bytes} "
            f"bytes is cheaper to cut (picking pays off from {pick_from_bytes} bytes)"
        )
    return ""
