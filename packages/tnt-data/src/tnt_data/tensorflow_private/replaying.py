"""Repeats a step on other inputs with the arguments and traced functions it was made with.

Every repetition is in deterministic order: with `deterministic=False` two ranks would see samples
in different orders.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import (
    dataset_ops,
    directed_interleave_op,
    ragged_batch_op,
    unbatch_op,
)
from tensorflow.python.data.util import nest

from tnt_data.tensorflow_private.changes import Changes, Inputs, Replay
from tnt_data.tensorflow_private.functions import call_again, find_hidden, traced_functions
from tnt_data.tensorflow_private.readers import READERS
from tnt_data.tensorflow_private.repeating import (
    repeat_on,
    repeat_with_function,
    seeded_random,
    seeded_shuffle,
)
from tnt_data.tensorflow_private.reseeding import with_numbers, with_seeded_shuffles
from tnt_data.tensorflow_private.storing import STORES


def is_deterministic(step: Any) -> bool | None:
    """How to ask for the order of a step's results again: never for none. Local."""
    return None if getattr(step, "_deterministic", "true") == "default" else True


def _function(step: Any) -> Callable[..., Any]:
    return call_again(traced_functions(step)[0])


def _batch(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].batch(step._batch_size, bool(step._drop_remainder), name=step._name)


def _parallel_batch(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].batch(
        step._batch_size,
        bool(step._drop_remainder),
        num_parallel_calls=step._num_parallel_calls,
        deterministic=is_deterministic(step),
        name=step._name,
    )


def _padded_batch(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].padded_batch(
        step._batch_size,
        padded_shapes=step._padded_shapes,
        padding_values=step._padding_values,
        drop_remainder=bool(step._drop_remainder),
        name=step._name,
    )


def _options(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].with_options(step.options(), name=step._name)


def _map(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    more = {"force_synchronous": True} if getattr(step, "_force_synchronous", False) else {}
    return repeat_with_function(
        step,
        step._map_func,
        inputs[0],
        tf.raw_ops.MapDataset,
        use_inter_op_parallelism=step._use_inter_op_parallelism,
        preserve_cardinality=step._preserve_cardinality,
        **more,
    )


def _parallel_map(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    unbounded = getattr(step, "_use_unbounded_threadpool", None)
    more = {"use_unbounded_threadpool": True} if unbounded else {}
    return repeat_with_function(
        step,
        step._map_func,
        inputs[0],
        tf.raw_ops.ParallelMapDatasetV2,
        num_parallel_calls=step._num_parallel_calls,
        deterministic="default" if step._deterministic == "default" else "true",
        use_inter_op_parallelism=step._use_inter_op_parallelism,
        preserve_cardinality=step._preserve_cardinality,
        **more,
    )


def _filter(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return repeat_with_function(step, step._predicate, inputs[0], tf.raw_ops.FilterDataset)


def _take_while(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return repeat_with_function(step, step._predicate, inputs[0], tf.raw_ops.TakeWhileDataset)


def _expand(
    step: Any, source: tf.data.Dataset, changes: Changes, operation: Any, **arguments: Any
) -> tf.data.Dataset:
    """A step whose function makes a dataset of each element, with the shuffles in it seeded."""
    function = step._map_func.function
    captured = function.captured_inputs
    if "shuffle" in find_hidden([step._map_func]):
        source = with_numbers(source, changes.seed)
        function = with_seeded_shuffles(function, changes.seed)
    repeated = repeat_on(step, source, operation, f=function, other_arguments=captured, **arguments)
    repeated._copied_function = function  # what it calls lives as long as it does
    return repeated


def _flat_map(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(step, inputs[0], changes, tf.raw_ops.FlatMapDataset)


def _ragged(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    row_splits = [
        spec.row_splits_dtype
        for spec in tf.nest.flatten(step.element_spec)
        if isinstance(spec, tf.RaggedTensorSpec)
    ]
    dtype = row_splits[0] if row_splits else tf.int64
    return ragged_batch_op._DenseToRaggedDataset(inputs[0], dtype, step._name)


def _interleave(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(
        step,
        inputs[0],
        changes,
        tf.raw_ops.InterleaveDataset,
        cycle_length=step._cycle_length,
        block_length=step._block_length,
    )


def _parallel_interleave(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return _expand(
        step,
        inputs[0],
        changes,
        tf.raw_ops.ParallelInterleaveDatasetV4,
        cycle_length=step._cycle_length,
        block_length=step._block_length,
        buffer_output_elements=step._buffer_output_elements,
        prefetch_input_elements=step._prefetch_input_elements,
        num_parallel_calls=step._num_parallel_calls,
        deterministic="true",
    )


def _window(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].window(
        step._size, step._shift, step._stride, step._drop_remainder, name=step._name
    )


def _group_by_window(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    key, reduce, size = (call_again(wrapper) for wrapper in traced_functions(step))
    return inputs[0].group_by_window(key, reduce, window_size_func=size, name=step._name)


def _zip(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return tf.data.Dataset.zip(nest.pack_sequence_as(step._datasets, list(inputs)), name=step._name)


def _directed_interleave(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return directed_interleave_op._DirectedInterleaveDataset(
        inputs[-1], list(inputs[:-1]), step._stop_on_empty_dataset
    )


def _assert_cardinality(step: Any, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
    return inputs[0].apply(tf.data.experimental.assert_cardinality(step._expected_cardinality))


SEEDS_INSIDE = ("_FlatMapDataset", "_InterleaveDataset", "_ParallelInterleaveDataset")
"""Steps that seed the shuffles in their functions when they are repeated."""

REPLAYS: dict[str, Replay] = {
    **READERS,
    **STORES,
    "_BatchDataset": _batch,
    "_ParallelBatchDataset": _parallel_batch,
    "_PaddedBatchDataset": _padded_batch,
    "_DenseToSparseBatchDataset": lambda step, inputs, changes: inputs[0].sparse_batch(
        step._batch_size, step._row_shape, name=step._name
    ),
    "_RebatchDataset": lambda step, inputs, changes: inputs[0].rebatch(
        step._batch_sizes, bool(step._drop_remainder), name=step._name
    ),
    "_UnbatchDataset": lambda step, inputs, changes: unbatch_op._UnbatchDataset(
        inputs[0], step._name
    ),
    "_RestructuredDataset": lambda step, inputs, changes: dataset_ops._RestructuredDataset(
        inputs[0], step.element_spec
    ),
    "_ShuffleDataset": lambda step, inputs, changes: seeded_shuffle(step, inputs[0], changes.seed),
    "_RandomDataset": lambda step, inputs, changes: seeded_random(step, changes.seed),
    "_PrefetchDataset": lambda step, inputs, changes: inputs[0].prefetch(
        int(step._buffer_size), name=step._name
    ),
    "_RepeatDataset": lambda step, inputs, changes: inputs[0].repeat(step._count, name=step._name),
    "_TakeDataset": lambda step, inputs, changes: inputs[0].take(step._count, name=step._name),
    "_SkipDataset": lambda step, inputs, changes: inputs[0].skip(step._count, name=step._name),
    "_ShardDataset": lambda step, inputs, changes: inputs[0].shard(
        step._num_shards, step._index, name=step._name
    ),
    "_OptionsDataset": _options,
    "_AssertCardinalityDataset": _assert_cardinality,
    "_MapDataset": _map,
    "_ParallelMapDataset": _parallel_map,
    "_FilterDataset": _filter,
    "_TakeWhileDataset": _take_while,
    "_ScanDataset": lambda step, inputs, changes: inputs[0].scan(
        step._initial_state, _function(step), name=step._name
    ),
    "_DenseToRaggedDataset": _ragged,
    "_UniqueDataset": lambda step, inputs, changes: inputs[0].unique(name=step._name),
    "_IgnoreErrorsDataset": lambda step, inputs, changes: inputs[0].ignore_errors(name=step._name),
    "_FlatMapDataset": _flat_map,
    "_InterleaveDataset": _interleave,
    "_ParallelInterleaveDataset": _parallel_interleave,
    "_WindowDataset": _window,
    "_GroupByWindowDataset": _group_by_window,
    "_ZipDataset": _zip,
    "_ConcatenateDataset": lambda step, inputs, changes: inputs[0].concatenate(
        inputs[1], name=step._name
    ),
    "_DirectedInterleaveDataset": _directed_interleave,
}
"""How to repeat a step, by the name of its class."""
