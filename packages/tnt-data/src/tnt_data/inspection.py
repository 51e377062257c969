"""What can be told of a dataset without reading it: whether it is batched, and its order."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.batching import judge_batching
from tnt_data.pipeline import JOINS_SAMPLES, Kind, Step
from tnt_data.steps import read_pipeline

_UNDECISIVE = ("prefetch", "with_options", "assert_cardinality")
_ORDERS = JOINS_SAMPLES | {Kind.SHUFFLE, Kind.RANDOM, Kind.ARRANGE}


def check_dataset(dataset: object) -> None:
    """Checks that something is a dataset. Local.

    Raises:
        TypeError: If it is not; says how to make one.
    """
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"Only a tf.data.Dataset can be distributed. Received: {type(dataset).__name__}. "
            f"Make one, for example with tf.data.Dataset.from_tensor_slices((x, y)).batch(n)."
        )


def global_batch_size(dataset: tf.data.Dataset) -> int | None:
    """Samples in a full global batch of a dataset, None if it is not batched or not known. Local.

    Args:
        dataset: As for `distribute`.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    check_dataset(dataset)
    return judge_batching(read_pipeline(dataset)).batch_size


def is_batched(dataset: tf.data.Dataset) -> bool:
    """Whether the elements of a dataset are batches, as far as its steps and shapes tell. Local.

    Args:
        dataset: As for `distribute`.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    check_dataset(dataset)
    return judge_batching(read_pipeline(dataset)).is_batched


def describe_order(dataset: tf.data.Dataset) -> str:
    """Names the steps that decide which samples come when, with their seeds. Local.

    Processes that build the same pipeline get the same text. They do not if one of them draws its
    seeds at random, say, or takes a part of its own.

    Args:
        dataset: As for `distribute`.

    Returns:
        Steps from the sources on, such as `"shuffle(9) with seed 3, batch(4)"`; empty without any,
        and with releases of TensorFlow whose steps are not known.

    Raises:
        TypeError: If `dataset` is not a `tf.data.Dataset`.
    """
    check_dataset(dataset)
    steps = read_pipeline(dataset).walk()
    decisive = [step for step in steps if step.kind in _ORDERS and step.name not in _UNDECISIVE]
    return ", ".join(map(_with_seed, decisive))


def _with_seed(step: Step) -> str:
    return f"{step.text} with seed {step.seeds}" if step.seeds else step.text
