"""`distribute` and `explain`: check, read, plan, then build or describe."""

from __future__ import annotations

import functools
import logging

import tensorflow as tf

from tnt_data.arithmetic import check_rank
from tnt_data.differences import draws_differently, find_differences
from tnt_data.explanation import describe_plan
from tnt_data.inspection import check_dataset
from tnt_data.pipeline import Step
from tnt_data.planning import (
    PICK_FROM_BYTES,
    SplitPlan,
    Way,
    plan_batch_size,
    plan_split,
)
from tnt_data.rebuilding import Repairs
from tnt_data.rewriting import rewrite
from tnt_data.steps import read_pipeline
from tnt_data.tensorflow_private import is_known_version

_logger = logging.getLogger("tnt_data")
_RESULTS = "_tnt_data_results"


def distribute(
    dataset: tf.data.Dataset,
    rank: int,
    size: int,
    *,
    micro_batch_size: int | None = None,
    seed: int = 42,
    fingerprint: bool = False,
) -> tf.data.Dataset:
    """One rank's part of a dataset: step k of all ranks together is exactly the serial batch k.

    Rank `r` gets the rows `batch[r::size]` of every global batch and takes part in every step;
    where it has no sample, it gets one duplicate row and `num_local == 0`. Shuffles without a seed
    get `seed`, also with a single rank. Called again with the same dataset object and arguments it
    returns the same object, so that caches stay filled and shuffles go on with a new order.

    Local: no rank waits for another, but all ranks must give the same pipeline.

    Args:
        dataset: Batched with the global batch size. Its steps must not depend on the rank.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks.
        micro_batch_size: Samples per rank and step. An unbatched dataset is batched with
            `micro_batch_size * size`; the batch size of a batched one must equal that.
        seed: For shuffles without a seed.
        fingerprint: Whether micro-batches tell by a number what global batch they are from, to be
            compared between ranks. Where random numbers come before the place at which rows are
            taken, such as those of an augmentation, they would always differ: then there is a
            warning, and the number is 0.

    Returns:
        Dataset of `MicroBatch` with as many steps as the serial dataset; its cardinality is that
        of the serial dataset whenever that is known.

    Raises:
        NotBatchedError: If the dataset is not batched and `micro_batch_size` is missing.
        BatchSizeError: If `micro_batch_size` does not fit.
        UnsupportedElementError: If elements have no rows that ranks could share.
        ValueError: If `rank` is not in `[0, size)`.
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    check_rank(rank, size)
    check_dataset(dataset)
    key = (rank, size, micro_batch_size, seed, fingerprint)
    results = dataset.__dict__.setdefault(_RESULTS, {})
    if key not in results:
        results[key] = _distribute(
            dataset, rank, size, micro_batch_size, seed, PICK_FROM_BYTES, fingerprint
        )
    return results[key]


def explain(
    dataset: tf.data.Dataset,
    size: int,
    *,
    micro_batch_size: int | None = None,
    seed: int = 42,
) -> str:
    """Says what `distribute` does with a dataset: in words, and step by step as a table. Local.

    Args:
        dataset: As for `distribute`.
        size: Number of ranks.
        micro_batch_size: As for `distribute`.
        seed: As for `distribute`.

    Raises:
        ValueError: As for `distribute`.
    """
    check_rank(0, size)
    check_dataset(dataset)
    last = _read_batched(dataset, size, micro_batch_size)
    plan = plan_split(last, size)
    return describe_plan(plan, size, seed, find_differences(last, size), last)


@functools.cache
def _warn_once(text: str) -> None:
    _logger.warning(text)


def _distribute(
    dataset: tf.data.Dataset,
    rank: int,
    size: int,
    micro_batch_size: int | None,
    seed: int,
    pick_from_bytes: int,
    fingerprint: bool = False,
) -> tf.data.Dataset:
    last = _read_batched(dataset, size, micro_batch_size)
    plan = plan_split(last, size, pick_from_bytes)
    _report(last, plan, rank, size, seed)
    return rewrite(plan, Repairs(rank, size, seed), fingerprint and _can_be_compared(plan, rank))


def _can_be_compared(plan: SplitPlan, rank: int) -> bool:
    """Whether all ranks read the same bytes up to the place at which rows are taken."""
    moved = {one.step.identity for one in plan.move.steps}
    first = plan.split.inputs[0] if plan.way is Way.PICK else plan.split
    drawing = [
        step.text for step in first.walk() if step.identity not in moved and draws_differently(step)
    ]
    if drawing:
        _logger.warning(
            "rank %d: what ranks read is not compared, since %s draws random numbers.",
            rank,
            ", ".join(drawing),
        )
    return not drawing


def _read_batched(dataset: tf.data.Dataset, size: int, micro_batch_size: int | None) -> Step:
    """Describes the dataset, batched by us if it is not and a micro-batch size is given."""
    last = read_pipeline(dataset)
    batch_size = plan_batch_size(last, micro_batch_size, size)
    return last if batch_size is None else read_pipeline(dataset.batch(batch_size))


def _report(last: Step, plan: SplitPlan, rank: int, size: int, seed: int) -> None:
    if not is_known_version():
        _warn_once(
            f"The steps of tf.data pipelines are not known for TensorFlow {tf.__version__}. "
            f"Batches are made whole and then cut, and shuffles keep their order: give them seeds."
        )
    differences = find_differences(last, size)
    if differences:
        _logger.warning(
            "rank %d of %d: ranks may see samples in different orders, so that some are used "
            "twice and others never: %s.",
            rank,
            size,
            "; ".join(differences),
        )
    if plan.repeated and size > 1:
        reasons = [f"{step.text}: {reason}" for step, reason in plan.move.limits if step.inputs]
        _logger.warning(
            "rank %d of %d: every rank runs %s for all samples, since %s. Where possible, map "
            "before `batch` and after steps such as `filter`; `explain` shows what is done with "
            "each step.",
            rank,
            size,
            ", ".join(step.text for step in plan.repeated),
            "; ".join(reasons) or plan.reason,
        )
    for step in last.walk():
        if step.needs_seed:
            _logger.info("rank %d: %s has no seed and gets %d.", rank, step.text, seed)
    _logger.info("rank %d: %s: %s.", rank, plan.way.value, plan.reason)
