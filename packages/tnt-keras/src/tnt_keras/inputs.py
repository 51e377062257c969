"""From the arguments of fit, evaluate and predict to the dataset that this rank reads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tnt_data
from tnt_keras.rank import get_rank, get_size


@dataclasses.dataclass(frozen=True)
class Samples:
    """The samples that a user passed, in the forms that Keras allows.

    Attributes:
        x: A `tf.data.Dataset`, or a structure of arrays or tensors of shape `(samples, ...)`.
        y: Targets, likewise; None with a dataset.
        sample_weight: Weights, likewise; None with a dataset.
        batch_size: Size of the global batch for arrays, None means 32; None with a dataset.
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
    def can_be_split(self) -> bool:
        """Whether ranks can each read a part: not of generators and `keras.utils.PyDataset`s."""
        leaves = keras.tree.flatten((self.x, self.y, self.sample_weight))
        return self.is_dataset or all(leaf is None or _is_array(leaf) for leaf in leaves)


def checked(samples: Samples, micro_batch_size: int | None) -> Samples:
    """Refuses what cannot be distributed, before anything else happens. Local.

    Args:
        samples: What the user passed.
        micro_batch_size: What the user passed as `tnt_micro_batch_size`.

    Returns:
        The samples; arrays with the size of the global batch.

    Raises:
        ValueError: If arguments contradict each other; says which and what to do.
        TypeError: If `x` is neither a dataset nor made of arrays.
    """
    if samples.is_dataset:
        for name in ("y", "sample_weight", "batch_size"):
            if getattr(samples, name) is not None:
                raise ValueError(
                    f"`{name}` must not be given when `x` is a `tf.data.Dataset`: the dataset "
                    "yields (inputs, targets) or (inputs, targets, sample_weights), batched with "
                    f"the global batch size. Received: {name}={_brief(getattr(samples, name))}."
                )
        return samples
    if not samples.can_be_split:
        raise TypeError(
            "On several ranks, `x` must be a `tf.data.Dataset` or (a structure of) arrays or "
            f"tensors. Received: {type(samples.x).__name__}. Make a dataset of it, for instance "
            "with `tf.data.Dataset.from_generator(...).batch(global_batch_size)`."
        )
    if micro_batch_size is not None and samples.batch_size is not None:
        raise ValueError(
            "`batch_size` is that of the global batch and `tnt_micro_batch_size` that of one rank: "
            f"give one of them. Received: {samples.batch_size} and {micro_batch_size}."
        )
    if micro_batch_size is not None:
        return dataclasses.replace(samples, batch_size=micro_batch_size * get_size())
    return samples


def training_dataset(
    samples: Samples, *, shuffle: Any, class_weight: dict[int, float] | None
) -> tf.data.Dataset:
    """Returns the global dataset for training. Local.

    Arrays are shuffled over all samples, differently in each epoch and equally on all ranks.

    Args:
        samples: Checked samples.
        shuffle: As in Keras; has no effect on a dataset.
        class_weight: As in Keras.

    Raises:
        ValueError: If `shuffle` or `class_weight` cannot be applied.
    """
    if shuffle not in (True, False):
        raise ValueError(
            f"`shuffle` must be True or False on several ranks. Received: shuffle={shuffle!r}."
        )
    dataset = global_dataset(samples, shuffle=shuffle)
    return dataset if class_weight is None else dataset.map(_class_weights_to_samples(class_weight))


def global_dataset(samples: Samples, *, shuffle: bool = False) -> tf.data.Dataset:
    """Returns the dataset of global batches that the serial run would read. Local.

    Args:
        samples: Checked samples.
        shuffle: Whether to shuffle arrays.
    """
    if samples.is_dataset:
        return samples.x
    element = keras.utils.pack_x_y_sample_weight(samples.x, samples.y, samples.sample_weight)
    # tf.data takes a list for a tensor, a tuple for a structure.
    element = keras.tree.map_structure(_as_array, keras.tree.lists_to_tuples(element))
    dataset = tf.data.Dataset.from_tensor_slices(element)
    if shuffle:
        dataset = dataset.shuffle(max(1, int(dataset.cardinality())))
    return dataset.batch(samples.batch_size or 32)


def local_dataset(dataset: tf.data.Dataset, micro_batch_size: int | None = None) -> tf.data.Dataset:
    """Returns the part of a global dataset that this rank reads. Local.

    Args:
        dataset: Batched with the size of the global batch, or unbatched.
        micro_batch_size: Samples per rank and step for an unbatched dataset.

    Returns:
        Dataset of `tnt_data.MicroBatch`; on one rank, of the user's own elements.

    Raises:
        ValueError: If the dataset is not batched and `micro_batch_size` is None, or if the two
            contradict each other.
    """
    local = tnt_data.distribute(dataset, get_rank(), get_size(), micro_batch_size=micro_batch_size)
    if get_size() > 1:
        return local
    return local.map(lambda micro_batch: micro_batch.data)


def describe(dataset: tf.data.Dataset, micro_batch_size: int | None) -> str:
    """Says what all ranks must agree on before they read a global dataset. Local.

    Args:
        dataset: As for `local_dataset`.
        micro_batch_size: As for `local_dataset`.
    """
    cardinality = int(dataset.cardinality())
    length = {tf.data.UNKNOWN_CARDINALITY: "unknown", tf.data.INFINITE_CARDINALITY: "infinite"}
    return (
        f"of {length.get(cardinality, cardinality)} elements {dataset.element_spec}, in batches "
        f"of {global_batch_size(dataset, micro_batch_size)}"
    )


def global_batch_size(dataset: tf.data.Dataset, micro_batch_size: int | None) -> int | None:
    """Returns the size of the global batches, None if it is not known before they are read.

    Args:
        dataset: As for `local_dataset`.
        micro_batch_size: As for `local_dataset`.
    """
    if micro_batch_size is not None:
        return micro_batch_size * get_size()
    return tnt_data.global_batch_size(dataset)


def split_off_validation(samples: Samples, fraction: float) -> tuple[Samples, Samples]:
    """Splits arrays into samples for training and the last ones for validation, as Keras does.

    Args:
        samples: Arrays.
        fraction: Part for validation, in (0, 1).

    Raises:
        ValueError: If the samples are a dataset, or a part would be empty.
    """
    if samples.is_dataset:
        raise ValueError(
            "`validation_split` needs arrays. With a `tf.data.Dataset`, pass `validation_data`."
        )
    parts = (samples.x, samples.y, samples.sample_weight)
    num_samples = len(next(leaf for leaf in keras.tree.flatten(parts) if leaf is not None))
    at = math.floor(num_samples * (1.0 - fraction))
    if not 0 < at < num_samples:
        raise ValueError(
            f"`validation_split={fraction}` of {num_samples} samples leaves one part empty."
        )

    def cut(part: slice) -> Samples:
        x, y, weight = keras.tree.map_structure(
            lambda leaf: None if leaf is None else leaf[part], parts
        )
        return dataclasses.replace(samples, x=x, y=y, sample_weight=weight)

    return cut(slice(None, at)), cut(slice(at, None))


def _class_weights_to_samples(class_weight: dict[int, float]) -> Any:
    table = tf.constant(
        [class_weight.get(label, 1.0) for label in range(max(class_weight) + 1)], tf.float32
    )

    def weigh(*element: Any) -> tuple[Any, Any, tf.Tensor]:
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(element)
        if sample_weight is not None:
            raise ValueError("`class_weight` and sample weights cannot be used together.")
        if not tf.is_tensor(y):
            raise ValueError("`class_weight` needs a model with a single output.")
        labels = y
        if y.shape.rank >= 2:
            labels = tf.argmax(y, -1) if y.shape[-1] != 1 else tf.squeeze(y, -1)
        labels = tf.cast(tf.round(labels) if labels.dtype.is_floating else labels, tf.int32)
        return x, y, tf.gather(table, labels)

    return weigh


def _is_array(leaf: Any) -> bool:
    return hasattr(leaf, "__array__") and len(leaf.shape) > 0


def _as_array(leaf: Any) -> Any:
    """The leaf as Keras takes it: floating-point arrays (float64, mostly) become its default."""
    if tf.is_tensor(leaf):
        return leaf
    array = np.asarray(leaf)
    return array.astype(keras.config.floatx()) if np.issubdtype(array.dtype, np.floating) else array


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{type(value).__name__}"
