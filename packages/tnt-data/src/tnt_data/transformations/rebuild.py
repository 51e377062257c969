"""Rebuild a transformation on other inputs, with the arguments and functions it was made with.

What is rebuilt is always in deterministic order: with `deterministic=False` two ranks would see
samples in different orders.
"""

from __future__ import annotations

import tensorflow as tf

from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations.catalogue import class_of
from tnt_data.transformations.dataset_class import Branch, Changes, Inputs


def rebuild(dataset: tf.data.Dataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    """Make a dataset like `dataset`, fed by `inputs`, always in deterministic order. Local.

    Args:
        dataset: The dataset to rebuild, one whose description says `can_be_rebuilt`.
        inputs: As many as it has. Where it runs functions, with the same types and shapes.
        changes: Seed and file name to use instead.
    """
    inspected = InspectedDataset(dataset)
    known = class_of(inspected)
    assert known is not None
    assert known.rebuild is not None
    return known.rebuild(inspected, inputs, changes)


def rebuild_with_numbers(
    dataset: tf.data.Dataset, branch: Branch, source: tf.data.Dataset, changes: Changes
) -> tf.data.Dataset:
    """Make a dataset like `dataset` on elements `(numbers, element)` instead of `element`. Local.

    The numbers describe the global batch that a row belongs to, and stay as they are.

    Args:
        dataset: The dataset to rebuild, one that was planned to be moved.
        branch: Zips between the dataset and the element, outermost first, each with the number of
            the input that the dataset feeds. If any, the dataset must be a `map`.
        source: Yields `(numbers, element)`.
        changes: As for `rebuild`.
    """
    inspected = InspectedDataset(dataset)
    known = class_of(inspected)
    if known is None or known.rebuild_with_numbers is None:
        return rebuild(dataset, [source], changes)
    return known.rebuild_with_numbers(inspected, branch, source, changes)
