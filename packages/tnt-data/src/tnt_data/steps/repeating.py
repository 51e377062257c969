"""Makes a step once more on another input: the same operation with the same traced functions.

A copy of the step's object gets a new input and a new operation. Going through the public methods
would trace the user's functions again, which may have side effects or make other constants.
Wrapping the traced functions would be no better: TensorFlow fuses neighbouring steps, for instance
`shuffle` and `repeat` where only a function without effect lies between, and a fused shuffle has
another order.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.tensorflow_private import OpenStep, repeat_operation, seeds_of


def repeat_on(
    step: OpenStep, source: tf.data.Dataset, operation: Any, **arguments: Any
) -> tf.data.Dataset:
    """A copy of a step with one input, fed by `source`. Local.

    Args:
        step: The step to repeat.
        source: New input with the same types and shapes as the old one.
        operation: The raw operation behind the step.
        arguments: What the operation needs besides the input and the types of the elements.
    """
    return repeat_operation(step.dataset, source, operation, arguments, {})


def repeat_with_function(
    step: OpenStep, source: tf.data.Dataset, operation: Any, **arguments: Any
) -> tf.data.Dataset:
    """Like `repeat_on` for a step that runs one function. Local."""
    name = "predicate" if operation in _WITH_PREDICATE else "f"
    function = step.functions[0].function
    arguments = {"other_arguments": function.captured_inputs, name: function, **arguments}
    return repeat_on(step, source, operation, **arguments)


_WITH_PREDICATE = (tf.raw_ops.FilterDataset, tf.raw_ops.TakeWhileDataset)


def seeded_shuffle(step: OpenStep, source: tf.data.Dataset, seed: int) -> tf.data.Dataset:
    """A shuffle with its own seeds, or with `seed` where it has none. Local."""
    seeds = _seeds(step, seed)
    arguments = {
        **seeds,
        "buffer_size": step.argument("buffer_size"),
        "seed_generator": tf.raw_ops.DummySeedGenerator(),
        "reshuffle_each_iteration": step.argument("reshuffle_each_iteration"),
    }
    operation = tf.raw_ops.ShuffleDatasetV3
    return repeat_operation(step.dataset, source, operation, arguments, seeds)


def seeded_random(step: OpenStep, seed: int) -> tf.data.Dataset:
    """A source of random numbers with its own seeds, or with `seed` where it has none. Local."""
    seeds = _seeds(step, seed)
    operation, arguments = tf.raw_ops.RandomDataset, seeds
    if step.argument("rerandomize"):
        operation = tf.raw_ops.RandomDatasetV2
        arguments = {
            **seeds,
            "seed_generator": tf.raw_ops.DummySeedGenerator(),
            "rerandomize_each_iteration": True,
        }
    return repeat_operation(step.dataset, None, operation, arguments, seeds)


def _seeds(step: OpenStep, seed: int) -> dict[str, Any]:
    """The seeds of a step, or those that `seed=seed` gives without a global one, if it has none.

    The public methods mix in the global seed as it is when they are called, which may be another
    one by now.
    """
    own = {name: step.argument(name) for name in ("seed", "seed2")}
    if any(int(one) for one in own.values()):
        return own
    first, second = seeds_of(seed)
    return {"seed": tf.constant(first, tf.int64), "seed2": tf.constant(second, tf.int64)}
