"""Which operation types the steps of Keras and TensorFlow users are made of.

Every public layer, loss, metric, optimizer, activation, regularizer, constraint, initializer and
function of `keras.ops` and `keras.random` of the installed Keras is traced as in a step: number of
rows unknown, forward and backward, in training and in inference. Nothing is run. That takes two
minutes, so what was found is kept with the versions it was found in; `python census.py` writes it.
"""

from __future__ import annotations

import functools
import gc
import random
from pathlib import Path

import keras
import tensorflow as tf
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

EAGER = "it asks a symbolic tensor for its value, so it works eagerly alone"
# Public names of Keras that no step can be traced with.
UNTRACED = {
    "keras.layers.FlaxLayer": "needs Flax",
    "keras.layers.JaxLayer": "needs JAX",
    "keras.layers.TFSMLayer": "calls the function of a file, whatever is in it",
    "keras.layers.TorchModuleWrapper": "needs PyTorch",
    "keras.ops.bartlett": EAGER,
    "keras.ops.convert_to_numpy": EAGER,
    "keras.ops.corrcoef": EAGER,
    "keras.ops.isin": EAGER,
    "keras.ops.kron": EAGER,
}
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
    state = random.getstate()
    random.seed(0)  # AugMix asks Python which layers it is made of
    gc.freeze()  # what is there stays: not to look at it again and again saves a tenth of the time
    for add in PARTS:
        add(census)
    gc.unfreeze()
    random.setstate(state)
    return census


RECORD = Path(__file__).with_name("census_of_keras.txt")
"""The versions of a census, then each operation type with a few of the names that emit it."""


def operation_types() -> dict[str, list[str]]:
    """Operation type -> some of the public names of Keras whose steps contain it.

    They are read from the record, or traced where other versions are installed.
    """
    found, *lines = RECORD.read_text(encoding="utf-8").splitlines()
    if found != versions():
        lines = lines_of(keras_census())
    return {name: users.split() for name, users in (line.split(": ", 1) for line in lines)}


def versions() -> str:
    return f"Keras {keras.__version__}, TensorFlow {tf.__version__}"


def lines_of(census: Census) -> list[str]:
    """The lines of the record that follow the versions."""
    return [f"{name}: {' '.join(sorted(of)[:3])}" for name, of in sorted(census.users().items())]


def tensorflow_operation_types() -> dict[str, set[str]]:
    """Operation type -> public names of TensorFlow that emit it, of those that could be called."""
    return tensorflow_census().users()


if __name__ == "__main__":
    RECORD.write_text("\n".join([versions(), *lines_of(keras_census())]) + "\n", encoding="utf-8")
