"""Give seeds to what is inside the functions of transformations."""

# Shuffles hidden in the functions of `flat_map` and `interleave` are seeded where they have no
# seed. With a fixed seed, however, every call would give the same order, in every pass. So each
# call gets a number of its own, drawn from a seeded source that goes on from pass to pass, as an
# argument that the function did not have before.

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.functions.contents import draws_from_seed, is_unseeded_shuffle
from tnt_data.functions.graph_copy import all_nodes, copy_function
from tnt_data.tensorflow_private import dataset_of, seeds_of

_NUMBER = "tnt_data_number"
_FIRST_SEED = "tnt_data_first_seed"
_OWN_SEED = "tnt_data_seed"
_MULTIPLIER = 1_000_003  # a prime, so that nearby seeds and ranks lead to distant ones


def with_own_random_numbers(function: Any, rank: int) -> Any:
    """Copy a function with other random seeds than on other ranks; the first keeps the user's."""

    def edit(graph: Any) -> None:
        for node in all_nodes(graph):
            if draws_from_seed(node):
                seed = (node.attr["seed2"].i + _MULTIPLIER * rank) % 2**31
                node.attr["seed2"].i = seed or 1

    return copy_function(function, edit) if rank else function


def with_seeded_shuffles(function: Any, seed: int) -> Any:
    """Copy a function with a new first argument, an int64 that seeds its shuffles. Local."""
    # Shuffles inside functions that it calls get `seed`.

    def edit(graph: Any) -> None:
        # The names of what other nodes give differ: inside of a library, outputs are named too.
        first_seed, _ = seeds_of(seed)
        _add_constant(graph.node, _FIRST_SEED, first_seed)
        _add_placeholder(graph.node, _NUMBER)
        for shuffle in [node for node in graph.node if is_unseeded_shuffle(node, graph.node)]:
            shuffle.input[2:4] = [_FIRST_SEED, _add_own_seed(graph.node, shuffle.name)]
        for called in graph.library.function:
            _seed_shuffles(called.node_def, seed)

    return copy_function(function, edit, added={_NUMBER: tf.TensorSpec([], tf.int64)})


def with_call_numbers(source: tf.data.Dataset, seed: int) -> tf.data.Dataset:
    """Return elements `(number, element)`, with other numbers in every pass. Local."""
    spec = tf.TensorSpec([], tf.int64)
    first_seed, _ = seeds_of(seed)
    variant = tf.raw_ops.RandomDatasetV2(
        seed=tf.constant(first_seed, tf.int64),
        seed2=tf.constant(seed, tf.int64),
        seed_generator=tf.raw_ops.DummySeedGenerator(),
        rerandomize_each_iteration=True,
        output_types=[spec.dtype],
        output_shapes=[spec.shape],
    )
    return tf.data.Dataset.zip((dataset_of(variant, spec), source))


def _seed_shuffles(nodes: Any, seed: int) -> None:
    shuffles = [node for node in nodes if is_unseeded_shuffle(node, nodes)]
    if shuffles:
        first_seed, _ = seeds_of(seed)
        _add_constant(nodes, _FIRST_SEED, first_seed)
    for number, shuffle in enumerate(shuffles):
        name = f"{_OWN_SEED}_{number}"
        _add_constant(nodes, name, seed + number)
        shuffle.input[2:4] = [f"{_FIRST_SEED}:output:0", f"{name}:output:0"]


def _add_own_seed(nodes: Any, shuffle: str) -> str:
    """Add a seed: several shuffles in one function must not give the same order."""
    count = sum(node.name.startswith(_OWN_SEED) for node in nodes) // 2
    name, offset = f"{_OWN_SEED}_{count}", f"{_OWN_SEED}_offset_{count}"
    _add_constant(nodes, offset, count)
    node = nodes.add(name=name, op="AddV2", input=[_NUMBER, offset])
    node.attr["T"].type = tf.int64.as_datatype_enum
    return name


def _add_constant(nodes: Any, name: str, value: int) -> None:
    node = nodes.add(name=name, op="Const")
    node.attr["dtype"].type = tf.int64.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, tf.int64))


def _add_placeholder(nodes: Any, name: str) -> None:
    node = nodes.add(name=name, op="Placeholder")
    node.attr["dtype"].type = tf.int64.as_datatype_enum
