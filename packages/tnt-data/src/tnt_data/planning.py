"""Decides where and how a pipeline is split. No TensorFlow.

The split lies as early as is exact. Walking back from the end, steps that never look into an
element (prefetch, repeat, cache, ...) do the same to micro-batches, so the split passes them, and
so do functions of which is known that they treat each row of a batch alone. It stops at the first
other step: a function of the user may mix the samples of a batch and must see all of it. If that
step is the one that makes the batches, and rows do not depend on each other, this rank's rows are
picked before they are joined (`Way.PICK`), as far before as `tnt_data.moving` allows; otherwise
they are cut out of the finished batch (`Way.SLICE`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tnt_data.arithmetic import check_micro_batch_size
from tnt_data.batching import Batching, judge_batching
from tnt_data.errors import NotBatchedError
from tnt_data.moving import Move, plan_move
from tnt_data.pipeline import JOINS_SAMPLES, PASSES_ELEMENTS_UNSEEN, Kind, Step

PICK_FROM_BYTES = 1024 * 1024
"""Smaller global batches are cut where no function is saved: copying them costs less (measured)."""


class Way(enum.Enum):
    """How a rank gets its rows."""

    PICK = "rows are picked before they are joined to a batch"
    SLICE = "rows are cut out of the finished global batch"


@dataclass(frozen=True)
class SplitPlan:
    """What is done with a pipeline; the same on every rank.

    Attributes:
        steps: The main chain from the end of the pipeline to the split, which is the last of them.
            All others pass elements on or treat each row alone, and are repeated after the split.
        batching: Whether and why the elements are batches.
        way: How rows are taken.
        reason: Why this way, in words.
        move: What is done after the pick, if rows are picked.
    """

    steps: tuple[Step, ...]
    batching: Batching
    way: Way
    reason: str
    move: Move

    @property
    def split(self) -> Step:
        """Where the pipeline is split: before this step when picking, after it when cutting."""
        return self.steps[-1]

    @property
    def repeated(self) -> tuple[Step, ...]:
        """Functions that every rank runs for all samples, since rows are cut out of batches."""
        if self.way is Way.PICK:
            return ()
        return tuple(step for step in self.split.walk() if step.is_map and not step.changes_nothing)


def plan_split(last: Step, size: int, pick_from_bytes: int = PICK_FROM_BYTES) -> SplitPlan:
    """Plans the split of a batched pipeline. Local; every rank finds the same.

    Args:
        last: Last step of the pipeline.
        size: Number of ranks.
        pick_from_bytes: Bytes of a global batch from which on rows are picked instead of cut.
    """
    steps = [last]
    while _may_follow_the_split(steps[-1]):
        steps.append(steps[-1].inputs[0])
    split = steps[-1]
    obstacle = "a single rank takes whole batches" if size == 1 else _obstacle_to_picking(split)
    move = Move() if obstacle else plan_move(split)
    if not (obstacle or move.saves_work):
        obstacle = _reason_not_to_pick(split, pick_from_bytes)
    way = Way.SLICE if obstacle else Way.PICK
    reason = obstacle or f"the rows of {split.text} do not depend on each other"
    return SplitPlan(tuple(steps), judge_batching(last), way, reason, move)


def _may_follow_the_split(step: Step) -> bool:
    """A cache on disk may hold whole batches of an earlier run, so it stays before the split."""
    if step.is_row_wise:
        return step.can_be_rebuilt and not step.needs_all
    return step.kind in PASSES_ELEMENTS_UNSEEN and step.can_be_rebuilt and not step.cache_file


def _obstacle_to_picking(step: Step) -> str:
    """Why rows have to be cut out of whole batches; empty if they can be picked."""
    if step.kind is Kind.OPAQUE:
        return f"{step.text} is not understood"
    if step.kind is Kind.FUNCTION:
        return f"{step.text} comes after the batch and may mix the samples of a batch"
    if step.kind not in JOINS_SAMPLES:
        return f"after {step.text} the samples of a batch are already joined"
    if step.kind is Kind.OTHER_BATCH or step.batch is None or step.batch.batch_size is None:
        return f"{step.text} joins samples in its own way"
    if not step.batch.rows_are_independent:
        return f"the padding of {step.text} depends on the whole batch"
    return ""


def _reason_not_to_pick(step: Step, pick_from_bytes: int) -> str:
    """Why picking does not pay, where it saves copies only; empty if it does."""
    assert step.batch is not None
    assert step.batch.batch_size is not None
    if step.batch.sample_bytes is None:
        return f"no function before {step.text} is saved, and the size of its batches is not known"
    num_bytes = step.batch.sample_bytes * step.batch.batch_size
    if num_bytes < pick_from_bytes:
        return (
            f"no function before {step.text} is saved, and a batch of {num_bytes} bytes is cheaper "
            f"to cut (picking pays from {pick_from_bytes})"
        )
    return ""


def plan_batch_size(last: Step, micro_batch_size: int | None, size: int) -> int | None:
    """Batch size that has to be added to a pipeline, None if it is batched already. Local.

    Args:
        last: Last step of the pipeline.
        micro_batch_size: Samples per rank and step, if the user asked for a number.
        size: Number of ranks.

    Raises:
        NotBatchedError: If the pipeline yields single samples and no micro-batch size is given.
        BatchSizeError: If the micro-batch size does not fit to the pipeline's batch size.
    """
    batching = judge_batching(last)
    if micro_batch_size is None:
        if batching.is_batched:
            return None
        raise NotBatchedError(
            f"The dataset is not batched: {batching.reason}. Call .batch(n) with the global batch "
            f"size, or give micro_batch_size, the number of samples per rank and step."
        )
    if batching.is_batched and batching.is_certain:
        check_micro_batch_size(micro_batch_size, size, batching.batch_size)
        return None
    return check_micro_batch_size(micro_batch_size, size, None)
