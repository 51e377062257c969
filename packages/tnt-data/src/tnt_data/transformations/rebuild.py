"""Rebuild a transformation on other inputs, with the arguments and functions it was made with."""

# What is rebuilt is always in deterministic order: with `deterministic=False` two ranks would see
# samples in different orders.

from __future__ import annotations

import tensorflow as tf

from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations.catalogue import class_of
from tnt_data.transformations.dataset_class import Branch, Changes, Inputs


def rebuild(dataset: tf.data.Dataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    """Make a dataset like `dataset`, fed by `inputs`, always in deterministic order. Local."""
    inspected = InspectedDataset(dataset)
    known = class_of(inspected)
    assert known is not None
    assert known.rebuild is not None
    return known.rebuild(inspected, inputs, changes)


def rebuild_with_numbers(
    dataset: tf.data.Dataset, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    """Make a dataset like `dataset` on `(numbers, element)` instead of `element`. Local."""
    # The numbers describe the global batch of a row, and stay. `branch` are the zips between
    # dataset and element, outermost first, with the number of the input; with any, it must be a
    # `map`.
    inspected = InspectedDataset(dataset)
    known = class_of(inspected)
    if known is None or known.rebuild_with_numbers is None:
        return rebuild(dataset, [source], changes)
    return known.rebuild_with_numbers(inspected, branch, source, changes)
