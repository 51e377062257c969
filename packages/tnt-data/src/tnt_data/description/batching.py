"""Decide whether a pipeline yields batches, and of what size. No TensorFlow."""

# The last transformation that joins samples decides, unless a later one takes the batches apart.
# Where there is none, or where a transformation hides what it yields (a generator, `flat_map`, one
# that is not understood), the shapes decide, as in Keras: the first dimension is that of the batch.
# All components must share it.

from __future__ import annotations

from dataclasses import dataclass, replace

from tnt_data.description.transformation import (
    JOINS_SAMPLES,
    PASSES_ELEMENTS_UNSEEN,
    Kind,
    Transformation,
)
from tnt_data.elements.row_split import check_micro_batch_size
from tnt_data.errors import NotBatchedError


@dataclass(frozen=True)
class Batching:
    """Whether elements are batches."""

    is_batched: bool
    batch_size: int | None  # in a full batch, None if unbatched or not known
    is_certain: bool  # False if the shapes of the elements alone spoke for it
    reason: str  # the transformation that decided, in words
    drop_remainder: bool = False  # whether a short last batch is left out
    num_samples: int | None = None  # in one pass, None if not known
    may_be_samples: bool = False  # whether the shapes are rather those of single samples

    def size_to_add(self, micro_batch_size: int | None, size: int) -> int | None:
        """Return the batch size to add to the pipeline, None if it is batched already. Local."""
        if micro_batch_size is None:
            if self.is_batched:
                return None
            raise NotBatchedError(
                f"The dataset is not batched: {self.reason}. Call .batch(n) with the global batch "
                "size, or pass micro_batch_size, the number of samples per rank and step."
            )
        if self.is_batched and self.is_certain:
            check_micro_batch_size(micro_batch_size, size, self.batch_size)
            return None
        return check_micro_batch_size(micro_batch_size, size, None)


def judge_batching(last: Transformation) -> Batching:
    """Decide from the last transformation of a pipeline whether it yields batches. Local."""
    return _judge_transformations(last) or _judge_shapes(last)


def _judge_transformations(transformation: Transformation) -> Batching | None:
    """Return the verdict of the transformation that makes the batches; None without one."""
    if transformation.kind in JOINS_SAMPLES:
        return _judge_batch(transformation)
    if transformation.kind is Kind.UNBATCH or not transformation.inputs:
        return None
    if transformation.kind in PASSES_ELEMENTS_UNSEEN or transformation.kind is Kind.FUNCTION:
        return _judge_transformations(transformation.inputs[0])
    if transformation.kind is Kind.MERGE:
        return _judge_branches(transformation)
    contents, text = transformation.function_contents, transformation.text
    if "batch" in contents and "unbatch" not in contents:
        return Batching(True, None, False, f"the functions of {text} make batches")
    if not transformation.same_elements:
        return None
    before = _judge_transformations(transformation.inputs[0])
    # It may cut batches to pieces, or join some, as long as shapes do not tell their sizes.
    is_open = transformation.first_dimension.size is None
    return _of_unknown_size(before) if before is not None and is_open else before


def _judge_batch(transformation: Transformation) -> Batching:
    reason = f"the last transformation that makes batches is {transformation.text}"
    if transformation.batch is None:
        return Batching(True, None, True, reason)
    num_samples = transformation.inputs[0].num_elements if len(transformation.inputs) == 1 else None
    size, drop_remainder = transformation.batch.batch_size, transformation.batch.drop_remainder
    return Batching(True, size, True, reason, drop_remainder, num_samples)


def _judge_branches(transformation: Transformation) -> Batching | None:
    """Return the verdict of a batched branch: others may be numbers, as in `enumerate`."""
    found = [_judge_transformations(branch) for branch in transformation.branches]
    verdicts = [verdict for verdict in found if verdict is not None]
    return next((one for one in verdicts if one.is_certain), verdicts[0] if verdicts else None)


def _of_unknown_size(batching: Batching) -> Batching:
    return replace(batching, batch_size=None, is_certain=False, num_samples=None)


def _judge_shapes(last: Transformation) -> Batching:
    rows = last.first_dimension
    if not rows.is_common:
        reason = (
            f"no transformation makes batches, and the components of {last.text} share no first "
            f"dimension"
        )
        return Batching(False, None, False, reason)
    num_elements = last.num_elements
    return Batching(
        True,
        rows.size,
        False,
        f"all components of {last.text} share a first dimension, which Keras takes as the batch",
        num_samples=None if rows.size is None or num_elements is None else rows.size * num_elements,
        may_be_samples=rows.may_be_of_samples,
    )
