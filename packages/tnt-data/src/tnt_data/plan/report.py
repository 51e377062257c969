"""Log what is done with a pipeline, and what the user should know about it. No TensorFlow."""

from __future__ import annotations

import logging

from tnt_data.description.rank_differences import find_differences
from tnt_data.description.transformation import Transformation
from tnt_data.elements.row_split import RowSplit
from tnt_data.plan.explain import describe_doubt
from tnt_data.plan.split import SplitPlan

_logger = logging.getLogger("tnt_data")


def report_plan(last: Transformation, plan: SplitPlan, split: RowSplit, seed: int) -> None:
    """Log a plan: warnings, seeds, and the way in which rows are taken. Local."""
    rank, size = split.rank, split.size
    if plan.batching.may_be_samples:
        _logger.warning(
            "rank %d of %d: %s [batches-assumed]", rank, size, describe_doubt(plan.batching)
        )
    differences = find_differences(last, size)
    if differences:
        _logger.warning(
            "rank %d of %d: ranks may see samples in different orders, so some are used twice and "
            "others never: %s. [order-differs]",
            rank,
            size,
            "; ".join(differences),
        )
    if plan.repeated and size > 1:
        _report_repeated(plan, rank, size)
    for one in last.walk():
        if one.needs_seed:
            _logger.info("rank %d: %s has no seed and gets %d.", rank, one.text, seed)
    _logger.info("rank %d: %s: %s.", rank, plan.way.value, plan.reason)


def _report_repeated(plan: SplitPlan, rank: int, size: int) -> None:
    reasons = [f"{one.text}: {reason}" for one, reason in plan.pushdown.limits if one.inputs]
    _logger.warning(
        "rank %d of %d: every rank runs %s for all samples, since %s. If possible, map before "
        "`batch` and after transformations such as `filter`; `explain` shows what happens to "
        "each. [runs-for-all-samples]",
        rank,
        size,
        ", ".join(one.text for one in plan.repeated),
        "; ".join(reasons) or plan.reason,
    )


def report_random_fingerprint(plan: SplitPlan, rank: int) -> None:
    """Log that ranks cannot compare what they read, since they draw other numbers. Local."""
    _logger.warning(
        "rank %d: ranks do not compare what they read, since %s draws random numbers. "
        "[not-compared]",
        rank,
        ", ".join(one.text for one in plan.random_before_split),
    )
