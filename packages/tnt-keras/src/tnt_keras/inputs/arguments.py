"""The input of `fit`, `evaluate` and `predict` as the user gave it, checked."""

from __future__ import annotations

import dataclasses
from typing import Any

import keras
import tensorflow as tf

import tnt_data
from tnt_keras.inputs.arrays import is_array, split_off_last
from tnt_keras.inputs.py_dataset import makes_batches
from tnt_keras.process.rank import get_size


@dataclasses.dataclass(frozen=True)
class Samples:
    """The samples that a user passed, in the forms that Keras allows.

    Attributes:
        x: A `tf.data.Dataset`, a `keras.utils.PyDataset`, a generator, or a structure of arrays or
            tensors of shape `(samples, ...)`.
        y: Targets, likewise; None unless `x` are arrays.
        sample_weight: Weights, likewise; None unless `x` are arrays.
        batch_size: Size of the global batch for arrays, None means 32; None otherwise.
    """

    x: Any
    y: Any = None
    sample_weight: Any = None
    batch_size: int | None = None

    @property
    def is_dataset(self) -> bool:
        """Whether `x` is a dataset."""
        return isinstance(self.x, tf.data.Dataset)

    @property
    def is_shared(self) -> bool:
        """Whether `x` is a dataset that the user has shared by tnt-data."""
        return self.is_dataset and isinstance(self.x.element_spec, tnt_data.MicroBatch)

    @property
    def is_from_python(self) -> bool:
        """Whether Python code makes the batches."""
        return makes_batches(self.x)

    @property
    def is_from_arrays(self) -> bool:
        """Whether the samples are in arrays."""
        leaves = keras.tree.flatten((self.x, self.y, self.sample_weight))
        return all(leaf is None or is_array(leaf) for leaf in leaves)


@dataclasses.dataclass(frozen=True)
class Sharing:
    """How ranks share samples.

    Attributes:
        micro_batch_size: Samples of each rank in a step, if the user asked for a number.
        distribute: False if each rank is given samples of its own.
        verify: Whether ranks compare what they read.
        steps: Steps of an epoch, None for all there are.
        apart: Whether ranks use samples of their own without the others, as `predict` does.
    """

    micro_batch_size: int | None = None
    distribute: bool = True
    verify: bool = False
    steps: int | None = None
    apart: bool = False


def checked(samples: Samples, sharing: Sharing) -> Samples:
    """Refuses what cannot be distributed, before anything else happens. Local.

    Args:
        samples: What the user passed.
        sharing: How ranks are to share them.

    Returns:
        The samples; arrays with the size of the global batch.

    Raises:
        ValueError: If arguments contradict each other; says which and what to do.
        TypeError: If `x` is of a kind that cannot be distributed.
    """
    if not sharing.distribute and sharing.micro_batch_size is not None:
        raise ValueError(
            "A micro-batch size says how a global batch is shared, but this input is not "
            f"distributed. Received: {sharing.micro_batch_size}. Batch each rank's own samples."
        )
    if samples.is_shared and sharing.distribute:
        raise ValueError(
            "This dataset yields micro-batches: it has been shared between ranks already. Give the "
            "dataset itself, or say `tnt_distribute_dataset=False`."
        )
    if samples.is_dataset or samples.is_from_python:
        return _checked_batches(samples, sharing)
    if not samples.is_from_arrays:
        raise TypeError(
            "On several ranks, `x` must be a `tf.data.Dataset`, a `keras.utils.PyDataset`, a "
            "generator, or (a structure of) arrays or tensors. Received: "
            f"{type(samples.x).__name__}. Make a dataset of it, for instance with "
            "`tf.data.Dataset.from_generator(...).batch(global_batch_size)`."
        )
    if sharing.micro_batch_size is None:
        return samples
    if samples.batch_size is not None:
        raise ValueError(
            "`batch_size` is that of the global batch and `tnt_micro_batch_size` that of one rank: "
            f"give one of them. Received: {samples.batch_size} and {sharing.micro_batch_size}."
        )
    return dataclasses.replace(samples, batch_size=sharing.micro_batch_size * get_size())


def split_off_validation(samples: Samples, fraction: float) -> tuple[Samples, Samples]:
    """Splits arrays into samples for training and the last ones for validation, as Keras does.

    Args:
        samples: Arrays.
        fraction: Part for validation, in (0, 1).

    Raises:
        ValueError: If the samples are not in arrays, or a part would be empty.
    """
    if not samples.is_from_arrays:
        raise ValueError("`validation_split` needs arrays. With a dataset, pass `validation_data`.")
    parts = split_off_last((samples.x, samples.y, samples.sample_weight), fraction)
    first, last = (
        dataclasses.replace(samples, x=x, y=y, sample_weight=weight) for x, y, weight in parts
    )
    return first, last


def validation_samples(validation_data: Any, batch_size: int | None) -> Samples | None:
    """The samples of `validation_data`, None without any. Local.

    Args:
        validation_data: As for `fit`.
        batch_size: Size of the global batch for arrays, None means 32.
    """
    if validation_data is None:
        return None
    samples = Samples(*keras.utils.unpack_x_y_sample_weight(validation_data))
    if samples.is_dataset or samples.is_from_python:
        return samples
    return dataclasses.replace(samples, batch_size=batch_size)


def must_be_left_to_keras(*parts: Samples | None) -> bool:
    """Whether some samples, on one rank, are of a kind that only Keras can read. Local.

    Args:
        parts: Those for training, validation, and so on.
    """
    return get_size() == 1 and not all(
        part is None or part.is_dataset or part.is_from_arrays for part in parts
    )


def _checked_batches(samples: Samples, sharing: Sharing) -> Samples:
    kind = type(samples.x).__name__ if samples.is_from_python else "tf.data.Dataset"
    for name in ("y", "sample_weight", "batch_size"):
        if getattr(samples, name) is not None:
            raise ValueError(
                f"`{name}` must not be given when `x` is a `{kind}`: it yields (inputs, targets) "
                "or (inputs, targets, sample_weights), batched with the global batch size. "
                f"Received: {name}={_brief(getattr(samples, name))}."
            )
    if samples.is_from_python and sharing.micro_batch_size is not None:
        raise ValueError(
            f"A `{kind}` makes whole batches, so a micro-batch size has no meaning. Received: "
            f"{sharing.micro_batch_size}. Leave it out: every rank takes its part of each batch."
        )
    return samples


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__}"
