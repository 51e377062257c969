"""Decide whether a pipeline yields batches, and of what size. No TensorFlow.

The last transformation that joins samples or takes batches apart decides. Without one, a pipeline
from a known source yields single samples. Where a transformation hides what it yields (a generator,
`flat_map`, one that is not understood), the shapes decide: batches have a first dimension that all
components share.
"""

from __future__ import annotations

from dataclasses import dataclass

from tnt_data.description.transformation import (
    JOINS_SAMPLES,
    PASSES_ELEMENTS_UNSEEN,
    Kind,
    Transformation,
)


@dataclass(frozen=True)
class Batching:
    """Whether elements are batches.

    Attributes:
        is_batched: The decision.
        batch_size: Samples in a full batch, None if unbatched or not known.
        drop_remainder: Whether a short last batch is left out.
        num_samples: Samples in one pass, None if not known.
        is_certain: False if only the shapes of the elements spoke for it.
        reason: The transformation that decided, in words.
    """

    is_batched: bool
    batch_size: int | None
    is_certain: bool
    reason: str
    drop_remainder: bool = False
    num_samples: int | None = None


def judge_batching(transformation: Transformation) -> Batching:
    """Decide from the last transformation of a pipeline whether it yields batches. Local."""
    if transformation.kind in JOINS_SAMPLES:
        return _judge_batch(transformation)
    if transformation.kind is Kind.UNBATCH:
        return Batching(False, None, True, f"{transformation.text} takes the batches apart")
    if transformation.kind in (Kind.SOURCE, Kind.RANDOM):
        return Batching(
            False, None, True, f"no transformation after {transformation.text} makes batches"
        )
    if transformation.kind in PASSES_ELEMENTS_UNSEEN or transformation.kind is Kind.FUNCTION:
        return judge_batching(transformation.inputs[0])
    if transformation.kind is Kind.MERGE:
        return _judge_branches(transformation)
    if (
        "batch" in transformation.function_contents
        and "unbatch" not in transformation.function_contents
    ):
        return Batching(True, None, False, f"the functions of {transformation.text} make batches")
    if transformation.same_elements and not transformation.looks_batched:
        return judge_batching(transformation.inputs[0])
    return _judge_shapes(transformation)


def _judge_batch(transformation: Transformation) -> Batching:
    reason = f"the last transformation that makes batches is {transformation.text}"
    if transformation.batch is None:
        return Batching(True, None, True, reason)
    num_samples = transformation.inputs[0].num_elements if len(transformation.inputs) == 1 else None
    size, drop_remainder = transformation.batch.batch_size, transformation.batch.drop_remainder
    return Batching(True, size, True, reason, drop_remainder, num_samples)


def _judge_branches(transformation: Transformation) -> Batching:
    """Return the verdict of a batched branch: others may be numbers, as in `enumerate`."""
    verdicts = [judge_batching(branch) for branch in transformation.branches]
    for verdict in sorted(verdicts, key=lambda verdict: not verdict.is_certain):
        if verdict.is_batched:
            return verdict
    return verdicts[0]


def _judge_shapes(transformation: Transformation) -> Batching:
    if transformation.looks_batched:
        return Batching(
            True, None, False, f"all components of {transformation.text} share a first dimension"
        )
    return Batching(
        False, None, False, f"the components of {transformation.text} share no first dimension"
    )
