"""Repeats a step on other inputs with the arguments and traced functions it was made with.

Every repetition is in deterministic order: with `deterministic=False` two ranks would see samples
in different orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tnt_data.steps.changes import Changes, Inputs, Replay
from tnt_data.steps.functions import call_again, find_hidden
from tnt_data.steps.readers import READERS
from tnt_data.steps.repeating import (
    repeat_on,
    repeat_with_function,
    seeded_random,
    seeded_shuffle,
)
from tnt_data.steps.reseeding import with_numbers, with_seeded_shuffles
from tnt_data.steps.storing import STORES
from tnt_data.tensorflow_private import OpenStep, chosen, pack, ragged, restructured


def replay_step(
    dataset: tf.data.Dataset, inputs: Sequence[tf.data.Dataset], changes: Changes
) -> tf.data.Dataset:
    """A dataset like `dataset`, fed by `inputs`, always in deterministic order. Local.

    Args:
        dataset: The dataset to repeat, one whose description says `can_be_rebuilt`.
        inputs: As many as it has. Where it runs functions, with the same types and shapes.
        changes: Seed and file name to use instead.
    """
    step = OpenStep(dataset)
    return REPLAYS[step.name](step, inputs, changes)


def is_deterministic(step: OpenStep) -> bool | None:
    """How to ask for the order of a step's results again: never for none. Local."""
    return None if step.argument("deterministic", "true") == "default" else True


def _by(method: str, *arguments: str) -> Replay:
    """The public method, given the same arguments; their names are in the order it takes them."""

    def replay(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
        given = (step.argument(name) for name in arguments)
        repeated: tf.data.Dataset = getattr(inputs[0], method)(*given, name=step.argument("name"))
        return repeated

    return replay


def _parallel_batch(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].batch(
        step.argument("batch_size"),
        step.argument("drop_remainder"),
        num_parallel_calls=step.argument("num_parallel_calls"),
        deterministic=is_deterministic(step),
        name=step.argument("name"),
    )


def _options(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].with_options(step.dataset.options(), name=step.argument("name"))


def _map(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    more = {"force_synchronous": True} if step.argument("force_synchronous", False) else {}
    return repeat_with_function(
        step,
        inputs[0],
        tf.raw_ops.MapDataset,
        use_inter_op_parallelism=step.argument("use_inter_op_parallelism"),
        preserve_cardinality=step.argument("preserve_cardinality"),
        **more,
    )


def _parallel_map(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    unbounded = step.argument("use_unbounded_threadpool", False)
    more = {"use_unbounded_threadpool": True} if unbounded else {}
    return repeat_with_function(
        step,
        inputs[0],
        tf.raw_ops.ParallelMapDatasetV2,
        num_parallel_calls=step.argument("num_parallel_calls"),
        deterministic="default" if step.argument("deterministic") == "default" else "true",
        use_inter_op_parallelism=step.argument("use_inter_op_parallelism"),
        preserve_cardinality=step.argument("preserve_cardinality"),
        **more,
    )


def _filter(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return repeat_with_function(step, inputs[0], tf.raw_ops.FilterDataset)


def _take_while(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return repeat_with_function(step, inputs[0], tf.raw_ops.TakeWhileDataset)


def _scan(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    function = call_again(step.functions[0])
    return inputs[0].scan(step.argument("initial_state"), function, name=step.argument("name"))


def _expand(
    step: OpenStep, source: tf.data.Dataset, changes: Changes, operation: Any, **arguments: Any
) -> tf.data.Dataset:
    """A step whose function makes a dataset of each element, with the shuffles in it seeded."""
    function = step.functions[0].function
    captured = function.captured_inputs
    if "shuffle" in find_hidden(step.functions):
        source = with_numbers(source, changes.seed)
        function = with_seeded_shuffles(function, changes.seed)
    repeated = repeat_on(step, source, operation, f=function, other_arguments=captured, **arguments)
    repeated.tnt_data_function = function  # what it calls lives as long as it does
    return repeated


def _flat_map(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(step, inputs[0], changes, tf.raw_ops.FlatMapDataset)


def _ragged(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    row_splits = [
        spec.row_splits_dtype
        for spec in tf.nest.flatten(step.dataset.element_spec)
        if isinstance(spec, tf.RaggedTensorSpec)
    ]
    dtype = row_splits[0] if row_splits else tf.int64
    return ragged(inputs[0], dtype, step.argument("name"))


def _interleave(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(
        step,
        inputs[0],
        changes,
        tf.raw_ops.InterleaveDataset,
        cycle_length=step.argument("cycle_length"),
        block_length=step.argument("block_length"),
    )


def _parallel_interleave(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(
        step,
        inputs[0],
        changes,
        tf.raw_ops.ParallelInterleaveDatasetV4,
        cycle_length=step.argument("cycle_length"),
        block_length=step.argument("block_length"),
        buffer_output_elements=step.argument("buffer_output_elements"),
        prefetch_input_elements=step.argument("prefetch_input_elements"),
        num_parallel_calls=step.argument("num_parallel_calls"),
        deterministic="true",
    )


def _group_by_window(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    key, reduce, size = (call_again(traced) for traced in step.functions)
    return inputs[0].group_by_window(key, reduce, window_size_func=size, name=step.argument("name"))


def _zip(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.Dataset.zip(
        pack(step.argument("datasets"), list(inputs)), name=step.argument("name")
    )


def _directed_interleave(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return chosen(inputs[-1], list(inputs[:-1]), step.argument("stop_on_empty_dataset"))


def _assert_cardinality(step: OpenStep, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].apply(
        tf.data.experimental.assert_cardinality(step.argument("expected_cardinality"))
    )


SEEDS_INSIDE = ("flat_map", "interleave", "parallel interleave")
"""Steps that seed the shuffles in their functions when they are repeated."""

REPLAYS: dict[str, Replay] = {
    **READERS,
    **STORES,
    "random": lambda step, inputs, changes: seeded_random(step, changes.seed),
    "shuffle": lambda step, inputs, changes: seeded_shuffle(step, inputs[0], changes.seed),
    "batch": _by("batch", "batch_size", "drop_remainder"),
    "parallel batch": _parallel_batch,
    "padded_batch": _by(
        "padded_batch", "batch_size", "padded_shapes", "padding_values", "drop_remainder"
    ),
    "sparse_batch": _by("sparse_batch", "batch_size", "row_shape"),
    "rebatch": _by("rebatch", "batch_sizes", "drop_remainder"),
    "unbatch": lambda step, inputs, _: repeat_on(step, inputs[0], tf.raw_ops.UnbatchDataset),
    "ragged": _ragged,
    "prefetch": lambda step, inputs, _: inputs[0].prefetch(
        int(step.argument("buffer_size")), name=step.argument("name")
    ),
    "repeat": _by("repeat", "count"),
    "take": _by("take", "count"),
    "skip": _by("skip", "count"),
    "shard": _by("shard", "num_shards", "index"),
    "window": _by("window", "size", "shift", "stride", "drop_remainder"),
    "unique": _by("unique"),
    "ignore_errors": _by("ignore_errors"),
    "with_options": _options,
    "assert_cardinality": _assert_cardinality,
    "restructure": lambda step, inputs, _: restructured(inputs[0], step.dataset.element_spec),
    "map": _map,
    "parallel map": _parallel_map,
    "filter": _filter,
    "take_while": _take_while,
    "scan": _scan,
    "flat_map": _flat_map,
    "interleave": _interleave,
    "parallel interleave": _parallel_interleave,
    "group_by_window": _group_by_window,
    "zip": _zip,
    "concatenate": lambda step, inputs, _: inputs[0].concatenate(
        inputs[1], name=step.argument("name")
    ),
    "sample_from_datasets": _directed_interleave,
}
"""How to repeat a step, by its name."""
