"""Carry out a plan: build one rank's dataset from the description of a pipeline."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.description.transformation import JOINS_SAMPLES
from tnt_data.plan.split import SplitPlan, Way
from tnt_data.rank_dataset.pick_rows import join_rows, open_windows, pick_rows
from tnt_data.rank_dataset.serial_part import Rebuilder, Repairs
from tnt_data.rank_dataset.slice_rows import cut_batches
from tnt_data.transformations.maps import map_rows


def rewrite(
    plan: SplitPlan, repairs: Repairs, with_fingerprint: bool = False, may_differ: bool = False
) -> tf.data.Dataset:
    """Build the dataset of `MicroBatch` that a plan describes. Local."""
    # Components may not differ where a function that treats each row alone comes after the split,
    # since it could give components another order.
    if plan.way is Way.PICK:
        dataset = _pick(plan, repairs, with_fingerprint)
    else:
        whole = Rebuilder(repairs).build(plan.split)
        may_differ = (
            may_differ
            and plan.split.kind not in JOINS_SAMPLES
            and not any(one.is_row_wise for one in plan.chain[:-1])
        )
        dataset = cut_batches(whole, repairs.split, with_fingerprint, may_differ=may_differ)
    for transformation in reversed(plan.chain[:-1]):
        if transformation.is_row_wise:
            dataset = map_rows(transformation.dataset, dataset)
        else:
            dataset = repairs.rebuild(transformation, [dataset])
    if tf.executing_eagerly() and dataset.options().deterministic is False:
        options = tf.data.Options()
        options.deterministic = True
        dataset = dataset.with_options(options)
    return dataset


def _pick(plan: SplitPlan, repairs: Repairs, with_fingerprint: bool) -> tf.data.Dataset:
    samples = Rebuilder(repairs, plan.pushdown).build(plan.split.inputs[0])
    rows = pick_rows(samples, plan.split, repairs.split, with_fingerprint)
    for moved in plan.pushdown.moved:
        if moved.transformation.kind in JOINS_SAMPLES:
            rows = open_windows(rows)
    for moved in plan.pushdown.moved:
        branch = [(zipped.dataset, number) for zipped, number in moved.branch]
        rows = repairs.rebuild_with_numbers(moved.transformation, branch, rows)
    return join_rows(rows, plan.split, repairs.split)
