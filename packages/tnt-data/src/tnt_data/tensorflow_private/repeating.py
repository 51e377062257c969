"""Makes a step once more on another input: the same operation with the same traced functions.

A copy of the step's object gets a new input and a new operation. Going through the public methods
would trace the user's functions again, which may have side effects or make other constants.
Wrapping the traced functions would be no better: TensorFlow fuses neighbouring steps, for instance
`shuffle` and `repeat` where only a function without effect lies between, and a fused shuffle has
another order.
"""

from __future__ import annotations

import copy
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.framework import random_seed


def repeat_on(step: Any, source: tf.data.Dataset, operation: Any, **arguments: Any) -> Any:
    """A copy of a step with one input, fed by `source`. Local.

    Args:
        step: The dataset to repeat.
        source: New input with the same types and shapes as the old one.
        operation: The raw operation behind the step.
        arguments: What the operation needs besides the input and the types of the elements.
    """
    repeated = _copy(step)
    repeated._input_dataset = source
    variant = operation(input_dataset=source._variant_tensor, **arguments, **repeated._common_args)
    dataset_ops.DatasetV2.__init__(repeated, variant)
    return repeated


def repeat_with_function(
    step: Any, wrapper: Any, source: tf.data.Dataset, operation: Any, **arguments: Any
) -> Any:
    """Like `repeat_on` for a step that runs one function, given by its wrapper. Local."""
    name = "predicate" if operation in _WITH_PREDICATE else "f"
    arguments = {
        "other_arguments": wrapper.function.captured_inputs,
        name: wrapper.function,
        **arguments,
    }
    return repeat_on(step, source, operation, **arguments)


_WITH_PREDICATE = (tf.raw_ops.FilterDataset, tf.raw_ops.TakeWhileDataset)


def seeded_shuffle(step: Any, source: tf.data.Dataset, seed: int) -> Any:
    """A shuffle with its own seeds, or with `seed` where it has none. Local."""
    changed = _with_seeds(step, seed)
    return repeat_on(
        changed,
        source,
        tf.raw_ops.ShuffleDatasetV3,
        buffer_size=step._buffer_size,
        seed=changed._seed,
        seed2=changed._seed2,
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        reshuffle_each_iteration=step._reshuffle_each_iteration,
    )


def seeded_random(step: Any, seed: int) -> Any:
    """A source of random numbers with its own seeds, or with `seed` where it has none. Local."""
    changed = _with_seeds(step, seed)
    arguments = {"seed": changed._seed, "seed2": changed._seed2, **changed._common_args}
    if step._rerandomize:
        variant = tf.raw_ops.RandomDatasetV2(
            seed_generator=tf.raw_ops.DummySeedGenerator(),
            rerandomize_each_iteration=True,
            **arguments,
        )
    else:
        variant = tf.raw_ops.RandomDataset(**arguments)
    dataset_ops.DatasetV2.__init__(changed, variant)
    return changed


def _with_seeds(step: Any, seed: int) -> Any:
    """A copy with the seeds that `seed=seed` gives without a global one, if the step has none.

    The public methods mix in the global seed as it is when they are called, which may be another
    one by now.
    """
    changed = _copy(step)
    if not int(step._seed) and not int(step._seed2):
        changed._seed = tf.constant(random_seed.DEFAULT_GRAPH_SEED, tf.int64)
        changed._seed2 = tf.constant(random_seed._truncate_seed(seed), tf.int64)
    return changed


def _copy(step: Any) -> Any:
    """The object without what this package remembers about it."""
    copied = copy.copy(step)
    for name in [name for name in vars(copied) if name.startswith("_tnt_data")]:
        delattr(copied, name)
    return copied
