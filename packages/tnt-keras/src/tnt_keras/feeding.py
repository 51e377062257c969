"""From the input of a user to what Keras is given on this rank."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.agreement import exchange, require_same
from tnt_keras.arrays import ArraySamples
from tnt_keras.class_weights import weighing
from tnt_keras.inputs import Samples, Sharing
from tnt_keras.keras_private import ChangedInput
from tnt_keras.micro_batch import CheckedBatch, LocalBatch
from tnt_keras.python_batches import CommonOrder, RowsOfRank, makes_rows
from tnt_keras.rank import get_rank, get_size

DEFAULT_BATCH_SIZE = 32
Change = Callable[[Any], Any]
ClassWeight = dict[int, float] | None


@dataclasses.dataclass(frozen=True)
class Feed:
    """What Keras is given on this rank.

    Attributes:
        data: In place of the user's input.
        batch_spec: Specs of the batches that the model's own steps receive.
        batch_size: Size of the global batch, None if it is not known.
        is_compared: Whether ranks compare their data at the beginning of each step, and therefore
            at the end of each epoch too.
    """

    data: Any
    batch_spec: Any
    batch_size: int | None
    is_compared: bool


@dataclasses.dataclass(frozen=True)
class _Source:
    """Global batches before ranks take their parts.

    Attributes:
        dataset: What is shared: the user's dataset, or positions of samples in arrays.
        finish: Makes the user's batch of a part; None if the part is one.
        description: What all ranks must agree on, in words.
    """

    dataset: tf.data.Dataset
    finish: Change | None
    description: str


def make_feed(
    samples: Samples, sharing: Sharing, *, shuffle: Any = False, class_weight: ClassWeight = None
) -> Feed:
    """Prepares the input of a user. Collective on several ranks.

    Args:
        samples: Checked samples.
        sharing: How ranks share them.
        shuffle: As for `fit`; has no effect on a dataset or generator.
        class_weight: As for `fit`.

    Raises:
        ValueError: If arguments cannot be applied, or ranks have different datasets.
    """
    if shuffle not in (True, False):
        raise ValueError(
            f"`shuffle` must be True or False on several ranks. Received: shuffle={shuffle!r}."
        )
    if samples.is_from_python:
        return _feed_from_python(samples.x, sharing, bool(shuffle), class_weight)
    source = _source(samples, bool(shuffle))
    changes = [source.finish] if source.finish else []
    changes += [weighing(class_weight)] if class_weight is not None else []
    make = _shared_feed if sharing.distribute else _own_feed
    return make(source, sharing, changes)


def _source(samples: Samples, shuffle: bool) -> _Source:
    if samples.is_dataset:
        return _Source(samples.x, None, str(samples.x.element_spec))
    arrays = ArraySamples.pack(samples.x, samples.y, samples.sample_weight)
    positions = arrays.positions(samples.batch_size or DEFAULT_BATCH_SIZE, shuffle=shuffle)
    return _Source(positions, arrays.take, str(arrays.batch_spec))


def _shared_feed(source: _Source, sharing: Sharing, changes: list[Change]) -> Feed:
    """Every rank takes its rows of each global batch."""
    rank, size, micro_batch_size = get_rank(), get_size(), sharing.micro_batch_size
    batch_size = tnt_data.global_batch_size(source.dataset)
    if micro_batch_size is not None:
        batch_size = micro_batch_size * size
    if size > 1:
        require_same("the dataset", _describe(source, batch_size))
    local = tnt_data.distribute(
        source.dataset,
        rank,
        size,
        micro_batch_size=micro_batch_size,
        fingerprint=sharing.verify and size > 1,
    )
    local = _with_changed_data(local, changes)
    spec = local.element_spec.data
    if size == 1:
        return Feed(local.map(lambda micro_batch: micro_batch.data), spec, batch_size, False)
    if sharing.verify:
        local = local.map(CheckedBatch)
    return Feed(local, spec, batch_size, sharing.verify)


def _own_feed(source: _Source, sharing: Sharing, changes: list[Change]) -> Feed:
    """Every rank reads what it was given."""
    dataset = source.dataset
    if get_size() == 1:
        dataset = _changed(dataset, changes)
        return Feed(dataset, dataset.element_spec, tnt_data.global_batch_size(dataset), False)
    _require_as_many_steps(_num_steps(dataset, sharing.steps))
    if isinstance(dataset.element_spec, tnt_data.MicroBatch):  # the user has called tnt-data
        dataset = _with_changed_data(dataset, changes)
        return Feed(dataset.map(CheckedBatch), dataset.element_spec.data, None, True)
    dataset = _changed(dataset, changes)
    return Feed(_marked_as_own(dataset), dataset.element_spec, None, True)


def _feed_from_python(
    batches: Any, sharing: Sharing, shuffle: bool, class_weight: ClassWeight
) -> Feed:
    """Keras reads the batches, so that workers and epochs are as the user wants them."""
    rank, size = get_rank(), get_size()
    is_generator = not hasattr(batches, "num_batches")

    def take_rows(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return tnt_data.slice_batches(dataset, rank, size, sharing.verify).map(CheckedBatch)

    change = take_rows if sharing.distribute else _marked_as_own
    if sharing.distribute and makes_rows(batches):
        batches, change = RowsOfRank(batches, shuffle, rank, size), _with_counts
    elif not is_generator:
        batches = CommonOrder(batches, shuffle and sharing.distribute)
    data = ChangedInput(batches, class_weight, change)
    spec = data.get_tf_dataset().element_spec
    return Feed(data, spec.micro_batch.data if sharing.distribute else spec.data, None, True)


def _with_counts(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """From what `RowsOfRank` makes to micro-batches."""

    @tf.autograph.experimental.do_not_convert
    def micro_batch(inputs: Any, *others: Any) -> CheckedBatch:
        inputs, counts = inputs
        part = tnt_data.MicroBatch((inputs, *others), counts[0, 0], counts[0, 1], _no_fingerprint())
        return CheckedBatch(part)

    return dataset.map(micro_batch)


def _no_fingerprint() -> tf.Tensor:
    return tf.zeros([], tf.int64)


def _marked_as_own(dataset: tf.data.Dataset) -> tf.data.Dataset:
    return _changed(dataset, [LocalBatch])


def _changed(dataset: tf.data.Dataset, changes: list[Change]) -> tf.data.Dataset:
    is_tuple = type(dataset.element_spec) is tuple
    for change in changes:

        @tf.autograph.experimental.do_not_convert
        def call(*arguments: Any, change: Change = change, is_tuple: bool = is_tuple) -> Any:
            return change(arguments if is_tuple else arguments[0])

        dataset = dataset.map(call)
        is_tuple = type(dataset.element_spec) is tuple
    return dataset


def _with_changed_data(dataset: tf.data.Dataset, changes: list[Change]) -> tf.data.Dataset:
    """Micro-batches whose data are changed, a few of them ahead of time."""
    for change in changes:

        @tf.autograph.experimental.do_not_convert
        def call(micro_batch: tnt_data.MicroBatch, change: Change = change) -> tnt_data.MicroBatch:
            return micro_batch._replace(data=change(micro_batch.data))

        dataset = dataset.map(call)
    return dataset.prefetch(tf.data.AUTOTUNE) if changes else dataset


def _describe(source: _Source, batch_size: int | None) -> str:
    return f"of {_length(source.dataset)} elements {source.description}, in batches of {batch_size}"


def _require_as_many_steps(num_steps: int | None) -> None:
    """Compares numbers of steps where they are known. Collective.

    Args:
        num_steps: Of this rank; None if not known.
    """
    of_ranks = [message.decode() for message in exchange(str(num_steps or "").encode())]
    known = {number for number in of_ranks if number}
    if len(known) > 1:
        raise ValueError(
            f"Rank {get_rank()}: all ranks must have the same number of steps, but ranks 0 to "
            f"{get_size() - 1} have {', '.join(number or '?' for number in of_ranks)}. Give all "
            "ranks equally many batches, or limit them by `steps_per_epoch`."
        )


def _num_steps(dataset: tf.data.Dataset, steps: int | None) -> int | None:
    cardinality = int(dataset.cardinality())
    if cardinality == tf.data.INFINITE_CARDINALITY:
        return steps
    if cardinality == tf.data.UNKNOWN_CARDINALITY:
        return None
    return min(cardinality, steps) if steps else cardinality


def _length(dataset: tf.data.Dataset) -> int | str:
    cardinality = int(dataset.cardinality())
    names = {tf.data.UNKNOWN_CARDINALITY: "unknown", tf.data.INFINITE_CARDINALITY: "infinite"}
    return names.get(cardinality, cardinality)
