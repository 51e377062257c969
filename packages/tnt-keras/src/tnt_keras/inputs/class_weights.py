"""Turn class weights into sample weights.

Keras does so in two ways, which differ for labels without a weight. In arrays, and in the batches
of a `PyDataset`, any of them has the weight 1, negative ones included. In a dataset there is a
table for `0 ... max(class_weight)`, and a label outside of it is an error. Only the rank that holds
such a label could raise it, so batches carry it into the step, where ranks compare what they have
read and all raise.

The table is mapped over this rank's rows, not over the dataset before it is split as in Keras:
tnt-data cannot tell of one-hot targets, ragged inputs and the search for such labels that each row
is weighed alone, so that each rank would run the user's maps for all samples (measured on 2 ranks:
twice the time). For plain labels it can, if nothing looks for those without a weight, but then
TensorFlow's error on one rank is all that is left of the comparison.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tnt_data import MicroBatch
from tnt_keras.inputs.arrays import without_pandas
from tnt_keras.process.rank import get_size
from tnt_keras.step.batch import compared
from tnt_keras.step.data_check import NO_LABEL

ClassWeight = dict[int, float] | None
"""Weights by class, as for `fit`."""

_TOGETHER = "`class_weight` and sample weights cannot be used together."
_SEVERAL_OUTPUTS = "`class_weight` needs a model with a single output."


def class_weights_of(y: Any, sample_weight: Any, class_weight: dict[int, float]) -> np.ndarray:
    """Return the weights of the classes of all samples in an array, shape `(samples,)`. Local.

    Labels have shape `(samples,)` or `(samples, 1)`, rounded, or `(samples, classes)`, of which the
    largest counts. Classes without a weight have 1, also negative ones.
    """
    if sample_weight is not None:
        raise ValueError(_TOGETHER)
    if y is None or keras.tree.is_nested(y):
        raise ValueError(_SEVERAL_OUTPUTS)
    classes = np.asarray(without_pandas(y))
    num_samples = len(classes)
    if classes.ndim > 1:
        one_hot = classes.shape[-1] != 1
        classes = np.argmax(classes, -1) if one_hot else np.squeeze(classes, -1)
    if classes.size != num_samples:
        raise ValueError(
            "`class_weight` needs one class for each sample. "
            f"Received: targets of shape {tuple(y.shape)}."
        )
    labels, positions = np.unique(np.round(classes).astype("int32"), return_inverse=True)
    weights = [class_weight.get(int(label), 1.0) for label in labels]
    return np.array(weights, keras.config.floatx())[positions.reshape(num_samples)]


class WeightTable:
    """The weights, by default 1, of the classes `0 ... max(class_weight)`, for a dataset's batches.

    Batches `(x, y)` are given the weights of their classes, `(x, y, sample_weight)`.
    """

    def __init__(self, class_weight: dict[int, float]) -> None:
        self._weights = tf.constant(
            [class_weight.get(label, 1.0) for label in range(max(class_weight) + 1)], tf.float32
        )

    def weigh(self, element: Any) -> Any:
        """Return a batch, or this rank's part of one, with weights. Local.

        On several ranks it is marked, with the first label that has no weight: the row of a rank
        without samples does not count. On one rank TensorFlow refuses such labels.
        """
        if get_size() == 1:
            x, y, labels = _with_labels(element)
            return x, y, tf.gather(self._weights, labels)
        if not isinstance(element, MicroBatch):
            return compared(*self._weigh_known(element))
        data, label = self._weigh_known(element.data)
        label = tf.where(element.num_local > 0, label, NO_LABEL)
        return compared(element._replace(data=data), label)

    def _weigh_known(self, batch: Any) -> tuple[Any, tf.Tensor]:
        """Return a batch with weights, and its first label outside of the table, or `NO_LABEL`.

        Such labels become 0 in the batch, so that no loss fails on this rank alone before all ranks
        do.
        """
        x, y, labels = _with_labels(batch)
        is_known = (labels >= 0) & (labels < tf.size(self._weights))
        known = tf.where(is_known, labels, 0)
        y = tf.where(
            is_known if y.shape.rank < 2 else is_known[..., tf.newaxis], y, tf.zeros_like(y)
        )
        unknown = tf.cast(tf.boolean_mask(labels, ~is_known), tf.int64)
        first = tf.concat([unknown, [NO_LABEL]], 0)[0]
        return (x, y, tf.gather(tf.concat([self._weights, [1.0]], 0), known)), first


def _with_labels(batch: Any) -> tuple[Any, Any, tf.Tensor]:
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(batch)
    if sample_weight is not None:
        raise ValueError(_TOGETHER)
    if not tf.is_tensor(y):
        raise ValueError(_SEVERAL_OUTPUTS)
    return x, y, _labels(y)


def _labels(y: tf.Tensor) -> tf.Tensor:
    """Return the classes of a batch of rounded labels, or of rows of which the largest counts."""
    if y.shape.rank < 2:
        return _rounded(y)
    num_columns = tf.shape(y)[-1] if y.shape[-1] is None else tf.constant(y.shape[-1])
    return tf.cond(num_columns > 1, lambda: tf.argmax(y, -1, tf.int32), lambda: _rounded(y[..., 0]))


def _rounded(labels: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.round(labels) if labels.dtype.is_floating else labels, tf.int32)
