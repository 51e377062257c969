"""Make samples with other values than the first ones of a data set happen to have.

A quotient such as `sum(loss * mask) / sum(mask)` is a mean as long as no sample is masked, the
first batch of a sorted data set has one label, and texts of one length need no padding. So some of
the first samples get values that later ones may well have:

    numbers                     zeros, which stand for padding, for what is masked, for a class, for
                                black and for the mean of a feature; entries that are zero in all
                                samples get ones, if they are integers or truth values
    one-hot codes               that of the next class
    strings and ragged rows     their first half

What a step does above a threshold, with outliers, for confident predictions, or for the largest
value so far, it may do with none of the first samples. So there are other samples in which real
numbers are 16 times as large, most of them with the other sign.

A part without a single entry may compute nothing that is a number, such as a mean over no words.
So there are samples whose rows of integers have zeros in their second half, like shorter texts.

Labels that are missing are written as -1, as NaN if they are real numbers, or as -100 or 255 if
they are integers, and may come late, as rare classes do. So every second sample gets such a label,
or one that is larger than all others. Steps that take care of inputs which are not a number may do
so for the whole batch: the first sample gets such inputs.

Some steps do something if any sample of the batch is a positive, has a flag, or is an outlier. So
there are samples of which the first one alone is such: the part of one rank has none.

Samples of one user, patient or document may lie in different parts, though those of the first ones
are all of others. So the last sample gets the integers and strings of the first one, which may name
them.

What would mean something else, or cannot come, stays as it is: labels of -1 and 1; integers that
are all different, which may be numbers of the samples; one number other than 0 and 1 in all
samples, unless it is an integer among the labels, such as a length, of which some get half.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from tnt_keras.probe.samples.first_samples import Samples
from tnt_keras.probe.samples.other_components import (
    NEXT,
    Array,
    larger,
    missing_or_new,
    of_another_kind,
    rare_input,
    rare_label,
    rare_zero,
    repeated,
    scaled_down,
    shorter,
)
from tnt_keras.probe.samples.users_code import EVERYWHERE, UsersCode


def with_other_values(samples: Samples, users: UsersCode = EVERYWHERE) -> Iterator[Samples]:
    """Yield samples with other values in some of them. Local.

    Those that get another kind of value, or larger ones, are the first more than half, so that with
    parts of neighbours one of two ranks has no others, and the other one a few: a maximum is then
    no sum. Where labels are missing, it is every second one, so that all parts have some of both.

    Args:
        samples: The first samples of a batch. A single one stays as it is.
        users: What code of the user sees. Where only Keras' does, labels stay, and no inputs become
            rare or missing.
    """
    num_rows = samples.num_rows
    if num_rows < 2:
        return
    numbers = np.arange(num_rows)
    is_among_first = numbers < min(num_rows // 2 + 2, num_rows - 1)
    inputs, labels = _inputs_and_labels(samples.all_rows)
    for group in _groups(samples.all_rows, inputs, labels if users.sees_labels else frozenset()):
        change = functools.partial(of_another_kind, bool(group and group <= labels))
        yield from _changed(samples, change, is_among_first, group)
    for of_all in (larger, shorter):
        yield from _changed(samples, of_all, is_among_first, inputs | labels)
    if users.sees_inputs:
        for rare in (rare_input, functools.partial(missing_or_new, np.nan)):
            yield from _changed(samples, rare, numbers == 0, inputs)
    if users.sees_labels:
        # Without labels any component may hold some, as those of a dictionary often do.
        alone = [frozenset({place}) for place in sorted(inputs)]
        for group in [labels] if labels else alone:
            yield from _with_other_labels(samples, group)
    if users.sees_inputs:
        yield from _changed(samples, repeated, numbers == num_rows - 1, inputs)


def _with_other_labels(samples: Samples, labels: Collection[int]) -> Iterator[Samples]:
    """Yield samples of which the first has a rare label, or every second one a late one."""
    numbers = np.arange(samples.num_rows)
    for rare in (rare_label, rare_zero):
        yield from _changed(samples, rare, numbers == 0, labels)
    for late in (np.nan, -1, -100, 255, NEXT):
        with_late = functools.partial(missing_or_new, late)
        yield from _changed(samples, with_late, numbers % 2 == 0, labels)


def with_small_numbers(samples: Samples) -> Samples | None:
    """Return the samples with components of large real numbers scaled down to 1 or less. Local.

    Next to an error of targets around 10,000, what is rounding hides a whole regularizer.

    Args:
        samples: The first samples of a batch.

    Returns:
        The scaled samples; None if no component has a number beyond `LARGE`.
    """
    of_all = np.ones(samples.num_rows, bool)
    places = range(len(tf.nest.flatten(samples.all_rows)))
    return next(_changed(samples, scaled_down, of_all, places), None)


def _inputs_and_labels(rows: Any) -> tuple[frozenset[int], frozenset[int]]:
    """Return the places of inputs, and of labels and weights, among the components."""
    num_leaves = len(tf.nest.flatten(rows))
    has_labels = isinstance(rows, tuple) and len(rows) > 1
    num_inputs = len(tf.nest.flatten(rows[0])) if has_labels else num_leaves
    return frozenset(range(num_inputs)), frozenset(range(num_inputs, num_leaves))


def _groups(rows: Any, inputs: frozenset[int], labels: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield components that change together: samples must not become equal in all of them.

    These are features, which become zero, masks and numbers among the inputs, and labels.
    """
    leaves = tf.nest.flatten(rows)
    features = frozenset(
        place
        for place in inputs
        if isinstance(leaves[place], tf.Tensor)
        and leaves[place].dtype.is_floating
        and leaves[place].shape[1:].num_elements() != 1
    )
    yield from (features, inputs - features, labels)


def _changed(
    samples: Samples,
    change: Callable[[Array, Any], Any],
    is_changed: Array,
    places: Collection[int],
) -> Iterator[Samples]:
    """Yield samples in which some components are changed, nothing if they stay as they are."""
    former = tf.nest.flatten(samples.all_rows)
    leaves = [
        change(is_changed, leaf) if place in places else leaf for place, leaf in enumerate(former)
    ]
    if any(leaf is not other for leaf, other in zip(leaves, former, strict=True)):
        rows = tf.nest.pack_sequence_as(samples.all_rows, leaves)
        yield dataclasses.replace(samples, all_rows=rows)
