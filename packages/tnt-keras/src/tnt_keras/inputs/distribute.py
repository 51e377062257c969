"""From the input of a user to what Keras is given on this rank."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

import tnt_data
from tnt_keras.collectives.messages import exchange, require_same
from tnt_keras.inputs.adapted import (
    Change,
    ClassWeight,
    Feed,
    changed,
    marked_as_own,
    with_changed_data,
)
from tnt_keras.inputs.arguments import Samples, Sharing
from tnt_keras.inputs.arrays import ArraySamples
from tnt_keras.inputs.class_weights import weighing
from tnt_keras.inputs.py_dataset import SEED
from tnt_keras.inputs.python_input import feed_from_python
from tnt_keras.process.log import logger
from tnt_keras.process.rank import MASTER_RANK, get_rank, get_size
from tnt_keras.step.local_batch import CheckedBatch

DEFAULT_BATCH_SIZE = 32
_COMPARED_ROWS = 256  # of arrays: enough to notice another order, and next to nothing to read
_REMEDY = (
    "Build it alike on all ranks, with the same seeds, and leave it to `fit` to share it. If each "
    "rank has samples of its own, say `tnt_distribute_dataset=False`."
)


@dataclasses.dataclass(frozen=True)
class _Source:
    """Global batches before ranks take their parts.

    Attributes:
        dataset: What is shared: the user's dataset, or positions of samples in arrays.
        arrays: The arrays, if samples are in arrays.
        is_shared: Whether the user has shared the dataset by tnt-data.
        description: What all ranks must agree on, in words.
        seed: For shuffles without a seed.
    """

    dataset: tf.data.Dataset
    arrays: ArraySamples | None
    is_shared: bool
    description: str
    seed: int


def make_feed(
    samples: Samples,
    sharing: Sharing,
    *,
    shuffle: Any = False,
    class_weight: ClassWeight = None,
    seed: int = SEED,
) -> Feed:
    """Prepares the input of a user. Collective on several ranks.

    Args:
        samples: Checked samples.
        sharing: How ranks share them.
        shuffle: As for `fit`; has no effect on a dataset or generator.
        class_weight: As for `fit`.
        seed: Decides the order if `shuffle` has an effect.

    Raises:
        ValueError: If arguments cannot be applied, or ranks have different datasets.
    """
    if shuffle not in (True, False):
        raise ValueError(
            f"`shuffle` must be True or False on several ranks. Received: shuffle={shuffle!r}."
        )
    if sharing.verify and not sharing.distribute and get_size() > 1:
        logger.warning(
            "`verify_inputs` has no effect on samples that ranks have shared by themselves: they "
            "have no batch in common that could be compared."
        )
    if samples.is_from_python:
        return feed_from_python(samples.x, sharing, bool(shuffle), class_weight, seed)
    source = _source(samples, bool(shuffle), seed)
    changes: list[Change] = [source.arrays.take] if source.arrays else []
    changes += [weighing(class_weight)] if class_weight is not None else []
    make = _shared_feed if sharing.distribute else _own_feed
    return make(source, sharing, changes)


def _source(samples: Samples, shuffle: bool, seed: int) -> _Source:
    if samples.is_dataset:
        return _Source(samples.x, None, samples.is_shared, str(samples.x.element_spec), SEED)
    arrays = ArraySamples.pack(samples.x, samples.y, samples.sample_weight)
    positions = arrays.positions(samples.batch_size or DEFAULT_BATCH_SIZE, shuffle=shuffle)
    description = str(arrays.batch_spec) + (f" in order {seed}" if shuffle else "")
    return _Source(positions, arrays, False, description, seed)


def _shared_feed(source: _Source, sharing: Sharing, changes: list[Change]) -> Feed:
    """Every rank takes its rows of each global batch."""
    rank, size, micro_batch_size = get_rank(), get_size(), sharing.micro_batch_size
    batch_size = tnt_data.global_batch_size(source.dataset)
    if micro_batch_size is not None:
        batch_size = micro_batch_size * size
    if size > 1:
        require_same("the dataset", _describe(source, batch_size), remedy=_REMEDY)
        if source.arrays is not None:
            _compare(source.arrays, sharing.verify)
    local = tnt_data.distribute(
        source.dataset,
        rank,
        size,
        micro_batch_size=micro_batch_size,
        seed=source.seed,
        fingerprint=sharing.verify and size > 1,
    )
    local = with_changed_data(local, changes)
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
        if source.is_shared:
            dataset = dataset.map(lambda micro_batch: micro_batch.data)
        dataset = changed(dataset, changes)
        return Feed(dataset, dataset.element_spec, tnt_data.global_batch_size(dataset), False)
    if source.is_shared or not sharing.apart:
        _require_as_many_steps(_num_steps(dataset, sharing.steps))
    if source.is_shared:
        dataset = with_changed_data(dataset, changes)
        return Feed(dataset.map(CheckedBatch), dataset.element_spec.data, None, True)
    dataset = changed(dataset, changes)
    return Feed(marked_as_own(dataset), dataset.element_spec, None, not sharing.apart)


def _describe(source: _Source, batch_size: int | None) -> str:
    """What is cheap to tell of a dataset, and would make ranks read different samples."""
    order = tnt_data.describe_order(source.dataset)
    return (
        f"of {_length(source.dataset)} elements {source.description}, in batches of {batch_size}"
        + (f", made by {order}" if order else "")
    )


def _compare(arrays: ArraySamples, verify: bool) -> None:
    """Compares what ranks hold in memory: some of it, or all if the user wants it. Collective."""
    own = arrays.fingerprint(None if verify else _COMPARED_ROWS)
    of_ranks = exchange("samples of arrays", str(own).encode())
    others = [rank for rank, number in enumerate(of_ranks) if number != of_ranks[MASTER_RANK]]
    if not others:
        return
    text = (
        f"Rank {get_rank()}: the arrays of ranks {others} differ from those of rank {MASTER_RANK}, "
        "so that some samples are used twice and others not at all. Make them alike on all ranks, "
        "with seeds for all that is random."
    )
    if verify:
        raise ValueError(text)
    logger.warning(text)


def _require_as_many_steps(num_steps: int | None) -> None:
    """Compares numbers of steps where they are known. Collective.

    Args:
        num_steps: Of this rank; None if not known.
    """
    of_ranks = [
        message.decode() for message in exchange("number of steps", str(num_steps or "").encode())
    ]
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
