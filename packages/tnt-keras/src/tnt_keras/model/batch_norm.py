"""Warn where batch normalisation on several ranks differs much from the serial run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tnt_keras.keras_hooks.private import all_layers
from tnt_keras.process.log import logger
from tnt_keras.process.rank import get_size
from tnt_keras.step.batch_norm_region import is_local

# Below this many samples the statistics of a batch are too noisy to train with.
LEAST_SAMPLES = 16


def warn_about_batch_statistics(outer: Sequence[Any], global_batch_size: int | None) -> None:
    """Warn where batch normalisation does not do what the serial run does. Local.

    Without `synchronized=True` its statistics are those of each rank's micro-batch, of B / n
    samples.

    Args:
        outer: Models, and layers outside of them.
        global_batch_size: B, None if it is not known.
    """
    layers = [layer for each in outer for layer in all_layers(each) if is_local(layer)]
    if get_size() == 1 or not layers:
        return
    if global_batch_size is not None and global_batch_size < LEAST_SAMPLES * get_size():
        logger.warning(
            "The model uses batch normalisation, whose statistics are those of each rank's "
            "micro-batch: %d samples of %d on %d ranks. Below %d samples per rank training may "
            "suffer: give the layers `synchronized=True`, which takes those of the whole batch, or "
            "use a larger batch or fewer ranks.",
            global_batch_size // get_size(),
            global_batch_size,
            get_size(),
            LEAST_SAMPLES,
        )
