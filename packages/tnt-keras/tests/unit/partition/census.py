"""Which operation types the steps of Keras and TensorFlow users are made of.

Every public layer, loss, metric, optimizer, function of `keras.ops` and `keras.random`, activation,
regularizer, constraint and initializer of the installed Keras is traced as in a step: number of rows
unknown, forward and backward, in training and in inference. Nothing is run.
"""

from __future__ import annotations

import functools

from census_functions import add_functions
from census_layers import add_layers
from census_record import Census
from census_tensorflow import tensorflow_census
from census_training import (
    add_losses,
    add_metrics,
    add_optimizers,
    add_steps,
    add_what_acts_on_weights,
)

ATTRIBUTE = "A symbolic tensor is asked for its truth or size: works eagerly only."
PARTS = (
    add_functions,
    add_layers,
    add_losses,
    add_metrics,
    add_optimizers,
    add_what_acts_on_weights,
    add_steps,
)


@functools.cache
def keras_census() -> Census:
    census = Census()
    for add in PARTS:
        add(census)
    return census


def operation_types() -> dict[str, set[str]]:
    """Operation type -> public names of Keras whose steps contain it."""
    return keras_census().users()


def tensorflow_operation_types() -> dict[str, set[str]]:
    """Operation type -> public names of TensorFlow that emit it, of those that could be called."""
    return tensorflow_census().users()
