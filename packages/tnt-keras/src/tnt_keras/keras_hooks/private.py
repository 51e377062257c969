"""The one place that uses what Keras does not document.

- The mask of a tensor: Keras hands the mask of a layer's or loss' output on as an attribute of the
  tensor, and there is no public way to read it.
- The layers of a model at any depth: `model.layers` lists one level only, and not those that a
  layer keeps for itself.
- The adapters by which Keras reads its inputs: they start and stop the workers of a `PyDataset`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters import data_adapter, get_data_adapter


def mask_of(tensor: tf.Tensor) -> tf.Tensor | None:
    """Returns the mask that Keras attached to `tensor`, None if there is none.

    Args:
        tensor: Output of a layer, a model or a loss' `call`.
    """
    return getattr(tensor, "_keras_mask", None)


def all_layers(model: keras.Model) -> list[Any]:
    """Returns the model and all layers below it, each once.

    Args:
        model: Any model.
    """
    return list(model._flatten_layers())


class ChangedInput(data_adapter.DataAdapter):
    """What Keras reads from an input, changed on the way; can be given to `fit` instead of it.

    Args:
        data: A `PyDataset` or generator.
        class_weight: As for `fit`.
        change: Makes another dataset of the one that Keras makes of the input.
        begin_epoch: Called before the first batch of each epoch.
    """

    def __init__(
        self,
        data: Any,
        class_weight: dict[int, float] | None,
        change: Callable[[tf.data.Dataset], tf.data.Dataset],
        begin_epoch: Callable[[], None] = lambda: None,
    ) -> None:
        self._adapter = get_data_adapter(data, class_weight=class_weight)
        self._change = change
        self._begin_epoch = begin_epoch

    def get_tf_dataset(self) -> tf.data.Dataset:
        """The changed dataset of one epoch."""
        return self._change(self._adapter.get_tf_dataset())

    @property
    def num_batches(self) -> int | None:
        """Batches in an epoch, None if not known."""
        return self._adapter.num_batches

    @property
    def batch_size(self) -> int | None:
        """Samples in a batch, None if not known."""
        return self._adapter.batch_size

    def on_epoch_begin(self) -> None:
        """Starts workers."""
        self._begin_epoch()
        self._adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Stops workers."""
        self._adapter.on_epoch_end()
