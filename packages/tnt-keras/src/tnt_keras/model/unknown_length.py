"""Warn where Keras takes a step without a batch, to find the end of the data."""

from __future__ import annotations

import inspect
from typing import Any

import tensorflow as tf

from tnt_keras.process.log import logger


def warn_of_step_without_batch(model: Any, x: Any, steps_per_epoch: int | None) -> None:
    """Warn of the step that Keras takes at the end of each epoch of unknown length. Local.

    Its graph is that of a step, and what needs no batch runs in it: `optimizer.iterations` counts
    one more, and states of seeds advance. So it is on any number of ranks, as in plain Keras. Where
    batches have a fixed size, it is added to the counts of means, too, which are then too small by
    the factor s / (s + 1) after s steps.

    Several steps in an execution, eager steps, and those that XLA compiles have no such step.

    Args:
        model: Compiled.
        x: What the user gave to `fit`.
        steps_per_epoch: As in `fit`.
    """
    if isinstance(x, tf.data.Dataset):
        is_unknown = int(x.cardinality()) == tf.data.UNKNOWN_CARDINALITY
    else:
        is_unknown = inspect.isgenerator(x)
    if not is_unknown or steps_per_epoch:
        return
    if model.run_eagerly or model.jit_compile or model.steps_per_execution > 1:
        return
    logger.warning(
        "fit: the number of batches is not known. Keras finds the end of an epoch by a step "
        "without a batch, in which `optimizer.iterations` counts one more, also here: schedules "
        "and Adam's corrections run ahead. If batches have a fixed size, means that are logged are "
        "too small besides. Give the number: "
        "`dataset.apply(tf.data.experimental.assert_cardinality(number))`, or `steps_per_epoch`."
    )
