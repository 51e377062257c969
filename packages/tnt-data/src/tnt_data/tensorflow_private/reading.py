"""Describes a dataset step by step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import config

from tnt_data.pipeline import JOINS_SAMPLES, BatchParameters, Kind, Step
from tnt_data.shapes import element_bytes, looks_batched, row_bytes, rows_are_independent
from tnt_data.tensorflow_private.functions import find_hidden, is_identity, traced_functions
from tnt_data.tensorflow_private.readers import READERS
from tnt_data.tensorflow_private.replaying import REPLAYS

_CLASSES = {
    "_RangeDataset": (Kind.SOURCE, "range"),
    "_TensorSliceDataset": (Kind.SOURCE, "from_tensor_slices"),
    "_TensorDataset": (Kind.SOURCE, "from_tensors"),
    "_SparseTensorSliceDataset": (Kind.SOURCE, "from_sparse_tensor_slices"),
    "TFRecordDatasetV2": (Kind.SOURCE, "TFRecordDataset"),
    "_TFRecordDataset": (Kind.SOURCE, "TFRecordDataset"),
    "TextLineDatasetV2": (Kind.SOURCE, "TextLineDataset"),
    "_TextLineDataset": (Kind.SOURCE, "TextLineDataset"),
    "FixedLengthRecordDatasetV2": (Kind.SOURCE, "FixedLengthRecordDataset"),
    "_FixedLengthRecordDataset": (Kind.SOURCE, "FixedLengthRecordDataset"),
    "_GeneratorDataset": (Kind.GENERATOR, "from_generator"),
    "_RandomDataset": (Kind.RANDOM, "random"),
    "_BatchDataset": (Kind.BATCH, "batch"),
    "_ParallelBatchDataset": (Kind.BATCH, "batch"),
    "_PaddedBatchDataset": (Kind.PADDED_BATCH, "padded_batch"),
    "_DenseToSparseBatchDataset": (Kind.OTHER_BATCH, "sparse_batch"),
    "_RebatchDataset": (Kind.OTHER_BATCH, "rebatch"),
    "_UnbatchDataset": (Kind.UNBATCH, "unbatch"),
    "_ShuffleDataset": (Kind.SHUFFLE, "shuffle"),
    "CacheDataset": (Kind.CACHE, "cache"),
    "_PrefetchDataset": (Kind.ARRANGE, "prefetch"),
    "_RepeatDataset": (Kind.ARRANGE, "repeat"),
    "_TakeDataset": (Kind.ARRANGE, "take"),
    "_SkipDataset": (Kind.ARRANGE, "skip"),
    "_ShardDataset": (Kind.ARRANGE, "shard"),
    "_OptionsDataset": (Kind.ARRANGE, "with_options"),
    "_AssertCardinalityDataset": (Kind.ARRANGE, "assert_cardinality"),
    "_MapDataset": (Kind.FUNCTION, "map"),
    "_ParallelMapDataset": (Kind.FUNCTION, "map"),
    "_FilterDataset": (Kind.FUNCTION, "filter"),
    "_TakeWhileDataset": (Kind.FUNCTION, "take_while"),
    "_ScanDataset": (Kind.FUNCTION, "scan"),
    "_DenseToRaggedDataset": (Kind.FUNCTION, "ragged"),
    "_UniqueDataset": (Kind.FUNCTION, "unique"),
    "_IgnoreErrorsDataset": (Kind.FUNCTION, "ignore_errors"),
    "_RestructuredDataset": (Kind.FUNCTION, "restructure"),
    "_FlatMapDataset": (Kind.EXPAND, "flat_map"),
    "_InterleaveDataset": (Kind.EXPAND, "interleave"),
    "_ParallelInterleaveDataset": (Kind.EXPAND, "interleave"),
    "_GroupByWindowDataset": (Kind.EXPAND, "group_by_window"),
    "_WindowDataset": (Kind.EXPAND, "window"),
    "_ZipDataset": (Kind.MERGE, "zip"),
    "_ConcatenateDataset": (Kind.MERGE, "concatenate"),
    "_DirectedInterleaveDataset": (Kind.MERGE, "sample_from_datasets"),
}
_MAPS = ("_MapDataset", "_ParallelMapDataset")
_SHOWN = (
    "_buffer_size",
    "_count",
    "_batch_size",
    "_batch_sizes",
    "_num_shards",
    "_index",
    "_filename",
)


def read_known_pipeline(dataset: tf.data.Dataset) -> Step:
    """Describes a dataset of a known release of TensorFlow, and everything that feeds it. Local."""
    name = type(dataset).__name__
    feeding = _inputs_of(dataset)
    kind, method = _CLASSES.get(name, (Kind.OPAQUE, name.strip("_")))
    hides = find_hidden(traced_functions(dataset))
    if kind is Kind.EXPAND and "generator" in hides and _has_one_element(feeding):
        # This is how from_generator is made; what feeds it says nothing about its elements.
        kind, method, feeding = Kind.GENERATOR, "from_generator", []
    seeds = [_value(dataset, "_seed"), _value(dataset, "_seed2")]
    cache_file = _value(dataset, "_filename") if kind is Kind.CACHE else b""
    return Step(
        kind,
        method,
        _describe(dataset, kind, method),
        inputs=tuple(read_known_pipeline(one) for one in feeding),
        handle=dataset,
        batch=_read_batch(dataset) if kind in JOINS_SAMPLES else None,
        lacks_seed=kind in (Kind.SHUFFLE, Kind.RANDOM) and seeds == [0, 0],
        lacks_order=_may_lack_order(dataset),
        depends_on_cores=_depends_on_cores(dataset),
        cache_file=cache_file.decode() if cache_file else "",
        hides=hides,
        is_map=_is_map(dataset),
        needs_all=_needs_all(dataset, hides),
        changes_nothing=method == "map" and is_identity(dataset._map_func),
        element_bytes=element_bytes(dataset.element_spec),
        looks_batched=looks_batched(dataset.element_spec),
        same_elements=len(feeding) == 1 and dataset.element_spec == feeding[0].element_spec,
        can_be_rebuilt=name in REPLAYS and kind is not Kind.GENERATOR,
    )


def _inputs_of(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """What feeds a step: of readers the file names, and what a step chooses by comes last."""
    if type(dataset).__name__ in READERS:
        names = dataset._filenames
        return [names] if isinstance(names, tf.data.Dataset) else []
    if type(dataset).__name__ == "_DirectedInterleaveDataset":
        return [*dataset._data_inputs, dataset._selector_input]
    return list(dataset._inputs())


def _has_one_element(feeding: list[tf.data.Dataset]) -> bool:
    return [type(one).__name__ for one in feeding] == ["_TensorDataset"]


def _may_lack_order(dataset: tf.data.Dataset) -> bool:
    """True also for a parallel `interleave`, which does not remember whether it keeps the order."""
    unknown = "false" if type(dataset).__name__ == "_ParallelInterleaveDataset" else ""
    return bool(getattr(dataset, "_deterministic", unknown) == "false")


def _is_map(dataset: tf.data.Dataset) -> bool:
    """Maps of TensorFlow 1 may end early, which changes the number of elements."""
    name = type(dataset).__name__
    return name == "_DenseToRaggedDataset" or (
        name in _MAPS and bool(getattr(dataset, "_preserve_cardinality", False))
    )


def _needs_all(dataset: tf.data.Dataset, hides: frozenset[str]) -> str:
    """Why a map must run for all samples.

    Calls in parallel overtake each other. So what depends on the order of calls is not defined in
    the serial run either, unless TensorFlow was told to be deterministic: it then calls in order.
    """
    calls = _value(dataset, "_num_parallel_calls")
    in_order = calls in (None, 1) or config.is_op_determinism_enabled()
    if "state" in hides:
        return "its function changes variables or the like from sample to sample"
    if "seeded random" in hides:
        return "its function draws seeded random numbers"
    if "python" in hides and in_order:
        return "its function is Python code that is called for one sample after the other"
    return ""


def _depends_on_cores(dataset: tf.data.Dataset) -> bool:
    step = dataset._impl if type(dataset).__name__ in READERS else dataset
    return bool(_value(step, "_cycle_length") == tf.data.AUTOTUNE)


def _value(dataset: tf.data.Dataset, attribute: str) -> Any:
    tensor: Any = getattr(dataset, attribute, None)
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    return value.tolist() if hasattr(value, "tolist") else value


def _describe(dataset: tf.data.Dataset, kind: Kind, method: str) -> str:
    """The step as the user may have written it, with the arguments that matter here."""
    shown = []
    for name in _SHOWN if kind not in (Kind.SOURCE, Kind.OPAQUE) else ():
        value = _value(dataset, name)
        if isinstance(value, bytes):
            value = repr(value.decode()) if value else None
        is_default = (method, value) in (("repeat", -1), ("prefetch", tf.data.AUTOTUNE))
        if value is not None and not is_default:
            shown.append(str(value))
    if _value(dataset, "_drop_remainder"):
        shown.append("drop_remainder=True")
    if kind is Kind.FUNCTION and traced_functions(dataset):
        shown.append(getattr(traced_functions(dataset)[0]._func, "__name__", "function"))
    if kind is Kind.SHUFFLE and _value(dataset, "_reshuffle_each_iteration") is False:
        shown.append("reshuffle_each_iteration=False")
    return f"{method}({', '.join(shown)})"


def _read_batch(dataset: tf.data.Dataset) -> BatchParameters:
    sizes = _value(dataset, "_batch_size")
    if sizes is None:
        sizes = _value(dataset, "_batch_sizes")
    size = sizes if isinstance(sizes, int) else None
    drop_remainder = bool(_value(dataset, "_drop_remainder"))
    if not _rows_are_independent(dataset):
        return BatchParameters(size, drop_remainder, False, None)
    return BatchParameters(size, drop_remainder, True, row_bytes(dataset.element_spec))


def _rows_are_independent(dataset: tf.data.Dataset) -> bool:
    if type(dataset).__name__ == "_PaddedBatchDataset":
        shapes = tf.nest.flatten(dataset._padded_shapes)
        return all((shape.numpy() >= 0).all() for shape in shapes)
    return len(dataset._inputs()) == 1 and rows_are_independent(dataset._inputs()[0].element_spec)
