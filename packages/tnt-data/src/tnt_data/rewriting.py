"""Carries out a plan: builds one rank's dataset from the description of a pipeline."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.completing import read_one_ahead
from tnt_data.picking import join_rows, pick_rows
from tnt_data.pipeline import JOINS_SAMPLES
from tnt_data.planning import SplitPlan, Way
from tnt_data.rebuilding import Rebuilder, Repairs
from tnt_data.slicing import slice_batches
from tnt_data.steps import (
    open_windows,
    repeat_on_rows,
    repeat_with_numbers,
)


def rewrite(plan: SplitPlan, repairs: Repairs, with_fingerprint: bool = False) -> tf.data.Dataset:
    """The dataset of `MicroBatch` that a plan describes. Local.

    Args:
        plan: Where to split, and how.
        repairs: What is set right on the way; holds the rank and the number of ranks.
        with_fingerprint: Whether micro-batches have fingerprints.

    Raises:
        UnsupportedElementError: If the elements have no rows that ranks could share.
    """
    if plan.way is Way.PICK:
        dataset = _pick(plan, repairs, with_fingerprint)
    else:
        whole = Rebuilder(repairs).build(plan.split)
        dataset = slice_batches(whole, repairs.rank, repairs.size, with_fingerprint)
    for step in reversed(plan.steps[:-1]):
        if step.is_row_wise:
            dataset = repeat_on_rows(step.handle, dataset)
        else:
            dataset = repairs.repeat(step, [dataset])
    if tf.executing_eagerly() and dataset.options().deterministic is False:
        options = tf.data.Options()
        options.deterministic = True
        dataset = dataset.with_options(options)
    return dataset


def _pick(plan: SplitPlan, repairs: Repairs, with_fingerprint: bool) -> tf.data.Dataset:
    samples = Rebuilder(repairs, plan.move).build(plan.split.inputs[0])
    rows = pick_rows(samples, plan.split, repairs.rank, repairs.size, with_fingerprint)
    for moved in plan.move.steps:
        if moved.step.kind in JOINS_SAMPLES:
            rows = open_windows(rows)
    for moved in plan.move.steps:
        branch = [(zipped.handle, number) for zipped, number in moved.branch]
        rows = repeat_with_numbers(moved.step.handle, branch, rows, repairs.changes())
        if moved.step.freezes_order:
            rows = read_one_ahead(rows)
    return join_rows(rows, plan.split, repairs.rank, repairs.size)
