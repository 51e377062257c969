"""Cut the rows of one rank out of the finished global batch: exact for every pipeline."""

# The rows are `batch[first::size]` with `first = rank`, or 0 for a rank without samples. The latter
# is one row, because a batch with `num_global <= rank` samples has fewer than `size` of them.

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.elements.fingerprints import fingerprint_of, no_fingerprint
from tnt_data.elements.micro_batch import MicroBatch
from tnt_data.elements.row_split import micro_batch_size
from tnt_data.elements.specs import is_none, named_components
from tnt_data.errors import UnsupportedElementError


def slice_batches(
    dataset: tf.data.Dataset,
    rank: int,
    size: int,
    with_fingerprint: bool = False,
    *,
    may_differ: bool = False,
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

    Returns:
        Dataset of `MicroBatch`, with as many elements as `dataset`.

    Raises:
        UnsupportedElementError: If no component has rows, one is of a type without rows, or two are
            known to differ in their number of rows and must not.
    """
    spec = dataset.element_spec
    num_rows = _check_components(spec, may_differ)

    @tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
    def split(*arguments: Any) -> MicroBatch:
        element = arguments if type(spec) is tuple else arguments[0]
        fingerprint = fingerprint_of(element) if with_fingerprint else no_fingerprint()
        part = _split_element(element, rank, size, num_rows, may_differ)
        return part._replace(fingerprint=fingerprint)

    return dataset.map(split)


def check_rows(element: Any) -> Any:
    """Return an element that is an error when read, unless all components have equal rows.

    Local.

    Args:
        element: An element inside a function of a dataset: any structure of dense, ragged and
            sparse tensors.
    """
    components = tf.nest.flatten(element)
    counts = [_num_rows(one) if _has_rows(one) else None for one in components]
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


def first_row_of_rank(num_global: tf.Tensor, rank: int) -> tf.Tensor:
    """Return the position of a rank's first row in a global batch; 0 if it has no sample. Local."""
    return tf.where(rank < num_global, tf.constant(rank, tf.int64), tf.constant(0, tf.int64))


def num_samples_of_rank(num_global: tf.Tensor, rank: int, size: int) -> tf.Tensor:
    """Return `micro_batch_size` for a number that is known only when the dataset is read. Local."""
    return tf.maximum(num_global - rank + size - 1, 0) // size


def _split_element(
    element: Any, rank: int, size: int, static_rows: int | None, may_differ: bool
) -> MicroBatch:
    components = tf.nest.flatten(element, expand_composites=False)
    if static_rows is not None:
        first = rank if rank < static_rows else 0
        num_local = tf.constant(micro_batch_size(static_rows, rank, size), tf.int64)
        parts = [_take_rows(one, first, size) for one in components]
        data = tf.nest.pack_sequence_as(element, parts, expand_composites=False)
        return MicroBatch(data, num_local, tf.constant(static_rows, tf.int64))
    counts = [_num_rows(one) if _has_rows(one) else None for one in components]
    num_global = counts[_position_of_samples(element)]
    begin = first_row_of_rank(num_global, rank)
    num_local = num_samples_of_rank(num_global, rank, size)
    differ = [tf.constant(False) if one is None else one != num_global for one in counts]
    shared: Any = ()
    if may_differ and size > 1 and len(components) > 1:
        shared = tf.stack(differ)
        zero, one = tf.constant(0, tf.int64), tf.constant(1, tf.int64)
        parts = [
            _take_rows(component, tf.where(other, zero, begin), tf.where(other, one, size))
            for component, other in zip(components, differ, strict=True)
        ]
    else:
        checked = tf.nest.flatten(check_rows(element))
        parts = [_take_rows(component, begin, size) for component in checked]
    data = tf.nest.pack_sequence_as(element, parts, expand_composites=False)
    return MicroBatch(data, num_local, num_global, shared=shared)


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
    return next(filter(lambda i: _has_rows(components[i]), places))


def _num_rows(component: Any) -> tf.Tensor:
    if isinstance(component, tf.SparseTensor):
        return component.dense_shape[0]
    if isinstance(component, tf.RaggedTensor):
        return component.nrows(out_type=tf.int64)
    if component.shape.rank is None:
        has_rows = tf.debugging.assert_rank_at_least(
            component,
            1,
            message="A component of a batch has no rows, so ranks cannot share the batch. Declare "
            "it as a scalar in its spec; if the elements are single samples, call "
            ".batch(n) with the global batch size.",
        )
        with tf.control_dependencies([has_rows]):
            component = tf.identity(component)
    return tf.shape(component, out_type=tf.int64)[0]


def _has_rows(component: Any) -> bool:
    return component is not None and component.shape.rank != 0


def _take_rows(component: Any, first: Any, size: Any) -> Any:
    if not _has_rows(component) or (isinstance(size, int) and size == 1):
        return component
    if isinstance(component, tf.SparseTensor):
        return _take_sparse_rows(component, first, size)
    # Same as component[first::size], which copies number by number; gather copies whole rows.
    rows = tf.range(tf.cast(first, tf.int64), _num_rows(component), tf.cast(size, tf.int64))
    taken = tf.gather(component, rows)
    if isinstance(component, tf.Tensor) and isinstance(first, int) and component.shape[0]:
        taken = tf.ensure_shape(
            taken, [len(range(first, component.shape[0], size)), *taken.shape[1:]]
        )
    return taken


def _take_sparse_rows(component: tf.SparseTensor, first: Any, size: Any) -> tf.SparseTensor:
    first, size = tf.cast(first, tf.int64), tf.cast(size, tf.int64)
    row = component.indices[:, 0]
    mine = tf.logical_and(row >= first, (row - first) % size == 0)
    indices = tf.boolean_mask(component.indices, mine)
    indices = tf.concat([(indices[:, :1] - first) // size, indices[:, 1:]], axis=1)
    num_rows = (component.dense_shape[0] - first + size - 1) // size
    shape = tf.concat([[num_rows], component.dense_shape[1:]], axis=0)
    taken = tf.SparseTensor(indices, tf.boolean_mask(component.values, mine), shape)
    taken.set_shape([None, *component.shape[1:]])
    return taken


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
