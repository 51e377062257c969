"""Cut the rows of one rank out of the finished global batch: exact for every pipeline."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.elements.fingerprints import fingerprint_of, no_fingerprint
from tnt_data.elements.micro_batch import MicroBatch
from tnt_data.elements.row_split import RowSplit, split_of_dataset
from tnt_data.elements.specs import is_none, named_components
from tnt_data.errors import UnsupportedElementError
from tnt_data.rank_dataset.take_rows import (
    has_rows,
    num_rows,
    num_rows_of,
    take_known_rows,
    take_rows,
)


def slice_batches(
    dataset: tf.data.Dataset,
    rank: int,
    size: int,
    with_fingerprint: bool = False,
    *,
    may_differ: bool = False,
    lanes: int | None = None,
) -> tf.data.Dataset:
    """Cut the micro-batches of one rank out of the elements of a batched dataset. Local.

    Components without rows (scalars, None) belong to the batch as a whole and go to every rank.

    Args:
        dataset: Yields global batches, any structure of dense, ragged and sparse tensors.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks.
        with_fingerprint: Whether to fold each global batch into a number.
        may_differ: Whether dense components may differ in their number of rows from the targets, or
            from the first component if there are no targets. They then belong to the batch as a
            whole, and `MicroBatch.shared` tells which.
        lanes: Number of lanes of a batch, as for `distribute`.

    Returns:
        Dataset of `MicroBatch`, with as many elements as `dataset`.

    Raises:
        UnsupportedElementError: If no component has rows, one is of a type without rows, or two are
            known to differ in their number of rows and must not.
        ValueError: If `rank` is not in `[0, size)`, or `lanes` is not a multiple of `size`.
    """
    split = split_of_dataset(rank, size, lanes)
    return cut_batches(dataset, split, with_fingerprint, may_differ=may_differ)


def cut_batches(
    dataset: tf.data.Dataset, split: RowSplit, with_fingerprint: bool, *, may_differ: bool
) -> tf.data.Dataset:
    """Return what `slice_batches` does. Local."""
    spec = dataset.element_spec
    num_global = _check_components(spec, may_differ)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def cut(*arguments: Any) -> MicroBatch:
        element = arguments if type(spec) is tuple else arguments[0]
        fingerprint = fingerprint_of(element) if with_fingerprint else no_fingerprint()
        part = _cut_element(element, split, num_global, may_differ)
        return part._replace(fingerprint=fingerprint)

    return dataset.map(cut)


def check_rows(element: Any) -> Any:
    """Return an element that is an error when read, unless all components have equal rows.

    Local.

    Args:
        element: An element inside a function of a dataset: any structure of dense, ragged and
            sparse tensors.
    """
    components = tf.nest.flatten(element)
    counts = [num_rows(one) if has_rows(one) else None for one in components]
    num_samples = counts[_position_of_samples(element)]
    checks = [
        tf.debugging.assert_equal(
            count,
            num_samples,
            message=f"The components of a batch differ in their number of rows: {name} has a "
            "different number than the targets, or than the first component if there are "
            "no targets, so ranks cannot share the batch. Put only what has one row per "
            "sample into the dataset, and pass the rest to the model in another way; if "
            "the elements are single samples, call .batch(n) with the global batch size.",
        )
        for (name, _), count in zip(named_components(element), counts, strict=True)
        if count is not None and count is not num_samples
    ]
    with tf.control_dependencies(checks):
        checked = [None if one is None else _same(one) for one in components]
    return tf.nest.pack_sequence_as(element, checked)


def _cut_element(
    element: Any, split: RowSplit, known_rows: int | None, may_differ: bool
) -> MicroBatch:
    components = tf.nest.flatten(element, expand_composites=False)
    if known_rows is not None:
        parts = [take_known_rows(one, split, known_rows) for one in components]
        data = tf.nest.pack_sequence_as(element, parts, expand_composites=False)
        num_local = tf.constant(split.num_rows(known_rows), tf.int64)
        return MicroBatch(data, num_local, tf.constant(known_rows, tf.int64))
    counts = [num_rows(one) if has_rows(one) else None for one in components]
    num_global = counts[_position_of_samples(element)]
    differ = [tf.constant(False) if one is None else one != num_global for one in counts]
    shared: Any = ()
    if may_differ and split.size > 1 and len(components) > 1:
        shared = tf.stack(differ)
        parts = [
            take_rows(component, split, num_global, is_whole)
            for component, is_whole in zip(components, differ, strict=True)
        ]
    else:
        checked = tf.nest.flatten(check_rows(element))
        parts = [take_rows(component, split, num_global) for component in checked]
    data = tf.nest.pack_sequence_as(element, parts, expand_composites=False)
    return MicroBatch(data, num_rows_of(split, num_global), num_global, shared=shared)


def _same(component: Any) -> Any:
    parts = tf.nest.flatten(component, expand_composites=True)
    same = [tf.identity(part) for part in parts]
    return tf.nest.pack_sequence_as(component, same, expand_composites=True)


def _position_of_samples(element: Any) -> int:
    """Return the place of a component with a row for each sample: of targets, else the first."""
    is_pair = type(element) is tuple and len(element) in (2, 3)
    num_inputs = len(tf.nest.flatten(element[0])) if is_pair else 0
    components = tf.nest.flatten(element)
    num_targets = len(tf.nest.flatten(element[1])) if is_pair else 0
    of_targets = range(num_inputs, num_inputs + num_targets)
    places: list[int] = [*of_targets, *range(len(components))]
    return next(filter(lambda i: has_rows(components[i]), places))


def _check_components(spec: Any, may_differ: bool) -> int | None:
    """Check that ranks can share elements of this spec; return the number of rows if known."""
    sizes: set[int | None] = set()
    for name, component in named_components(spec):
        if is_none(component):
            continue
        if not isinstance(component, (tf.TensorSpec, tf.RaggedTensorSpec, tf.SparseTensorSpec)):
            raise UnsupportedElementError(
                f"The elements of the dataset have a component {component}, whose rows ranks "
                "cannot share. Only dense, ragged and sparse tensors have rows."
            )
        if component.shape.rank == 0:
            continue
        size = component.shape[0] if component.shape.rank else None
        known = sizes - {None}
        if not may_differ and size is not None and known and size not in known:
            raise UnsupportedElementError(
                f"The components of a batch must have the same number of rows. Received: "
                f"{known.pop()} and {size} rows, those of {name}, in {spec}."
            )
        sizes.add(size)
    if not sizes:
        raise UnsupportedElementError(
            f"The elements of the dataset have no rows that ranks could share: {spec}. "
            f"Batch it first."
        )
    return next(iter(sizes)) if len(sizes) == 1 else None
