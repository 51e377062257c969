"""Decides whether a pipeline yields batches, and of what size. No TensorFlow.

The last step that joins samples or takes batches apart decides. Without such a step, a pipeline
from a known source yields single samples. Where a step hides what it yields (a generator,
`flat_map`, a step that is not understood), the shapes decide: batches have a first dimension that
all components share.
"""

from __future__ import annotations

from dataclasses import dataclass

from tnt_data.pipeline import JOINS_SAMPLES, PASSES_ELEMENTS_UNSEEN, Kind, Step


@dataclass(frozen=True)
class Batching:
    """Whether elements are batches.

    Attributes:
        is_batched: The decision.
        batch_size: Samples in a full batch, None if unbatched or not known.
        drop_remainder: Whether a short last batch is left out.
        num_samples: Samples in one pass, None if not known.
        is_certain: False if only the shapes of the elements spoke for it.
        reason: The step that decided, in words.
    """

    is_batched: bool
    batch_size: int | None
    is_certain: bool
    reason: str
    drop_remainder: bool = False
    num_samples: int | None = None


def judge_batching(step: Step) -> Batching:
    """Decides from the last step of a pipeline whether its elements are batches. Local."""
    if step.kind in JOINS_SAMPLES:
        return _judge_batch(step)
    if step.kind is Kind.UNBATCH:
        return Batching(False, None, True, f"{step.text} takes the batches apart")
    if step.kind in (Kind.SOURCE, Kind.RANDOM):
        return Batching(False, None, True, f"no step after {step.text} makes batches")
    if step.kind in PASSES_ELEMENTS_UNSEEN or step.kind is Kind.FUNCTION:
        return judge_batching(step.inputs[0])
    if step.kind is Kind.MERGE:
        return _judge_branches(step)
    if "batch" in step.hides and "unbatch" not in step.hides:
        return Batching(True, None, False, f"the functions of {step.text} make batches")
    if step.same_elements and not step.looks_batched:
        return judge_batching(step.inputs[0])
    return _judge_shapes(step)


def _judge_batch(step: Step) -> Batching:
    reason = f"the last batch step is {step.text}"
    if step.batch is None:
        return Batching(True, None, True, reason)
    num_samples = step.inputs[0].num_elements if len(step.inputs) == 1 else None
    size, drop_remainder = step.batch.batch_size, step.batch.drop_remainder
    return Batching(True, size, True, reason, drop_remainder, num_samples)


def _judge_branches(step: Step) -> Batching:
    """Batched if one branch is: the others may be numbers, as in `enumerate`."""
    verdicts = [judge_batching(branch) for branch in step.branches]
    for verdict in sorted(verdicts, key=lambda verdict: not verdict.is_certain):
        if verdict.is_batched:
            return verdict
    return verdicts[0]


def _judge_shapes(step: Step) -> Batching:
    if step.looks_batched:
        return Batching(True, None, False, f"all components of {step.text} share a first dimension")
    return Batching(False, None, False, f"the components of {step.text} share no first dimension")
