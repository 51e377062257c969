"""Describes a dataset step by step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.python.framework import random_seed

from tnt_data.pipeline import JOINS_SAMPLES, BatchParameters, Kind, Step
from tnt_data.python_code import draws_random_numbers
from tnt_data.shapes import element_bytes, looks_batched, row_bytes, rows_are_independent
from tnt_data.tensorflow_private.classes import CLASSES
from tnt_data.tensorflow_private.functions import find_hidden, traced_functions
from tnt_data.tensorflow_private.generators import find_generator
from tnt_data.tensorflow_private.maps import (
    calls_in_order,
    is_identity_map,
    is_map,
    is_row_wise_map,
    needs_all,
)
from tnt_data.tensorflow_private.readers import READERS
from tnt_data.tensorflow_private.replaying import REPLAYS, SEEDS_INSIDE
from tnt_data.tensorflow_private.storing import file_of

_SHOWN = (
    "_buffer_size",
    "_count",
    "_batch_size",
    "_batch_sizes",
    "_num_shards",
    "_index",
)


def read_known_pipeline(dataset: tf.data.Dataset) -> Step:
    """Describes a dataset of a known release of TensorFlow, and everything that feeds it. Local."""
    hides = _find_hidden(dataset)
    if "generator" in hides and _is_from_generator(dataset):
        return _read_generator(dataset)
    name = type(dataset).__name__
    kind, method = CLASSES.get(name, (Kind.OPAQUE, name.strip("_")))
    feeding = _inputs_of(dataset)
    seeds = [_value(dataset, "_seed"), _value(dataset, "_seed2")]
    return Step(
        kind,
        method,
        _describe(dataset, kind, method),
        inputs=tuple(read_known_pipeline(one) for one in feeding),
        handle=dataset,
        batch=_read_batch(dataset) if kind in JOINS_SAMPLES else None,
        seeds=_describe_seeds(seeds),
        lacks_seed=kind in (Kind.SHUFFLE, Kind.RANDOM) and seeds == [0, 0],
        lacks_seed_inside="shuffle" in hides and name in SEEDS_INSIDE,
        changes_order=_changes_order(dataset) or ("shuffle" in hides and name in SEEDS_INSIDE),
        lacks_order=_may_lack_order(dataset),
        depends_on_cores=_depends_on_cores(dataset),
        cache_file=file_of(dataset) if kind is Kind.CACHE else "",
        hides=hides,
        calls_in_order=calls_in_order(dataset),
        is_map=is_map(dataset),
        is_row_wise=is_row_wise_map(dataset),
        needs_all=needs_all(dataset, hides),
        changes_nothing=is_identity_map(dataset),
        element_bytes=element_bytes(dataset.element_spec),
        num_elements=_num_elements(dataset),
        looks_batched=looks_batched(dataset.element_spec),
        same_elements=len(feeding) == 1 and dataset.element_spec == feeding[0].element_spec,
        can_be_rebuilt=name in REPLAYS,
    )


def _find_hidden(dataset: tf.data.Dataset) -> frozenset[str]:
    hides = find_hidden(traced_functions(dataset))
    if "shuffle" in hides and is_map(dataset) and not _yields_datasets(dataset):
        # A shuffle inside of a sample: for others it makes no difference.
        return hides - {"shuffle"} | {"random"}
    return hides


def _yields_datasets(dataset: tf.data.Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return any(isinstance(spec, tf.data.DatasetSpec) for spec in specs)


def _is_from_generator(dataset: tf.data.Dataset) -> bool:
    """`from_generator` is made of a `flat_map` over a single element."""
    feeding = [type(one).__name__ for one in dataset._inputs()]
    return type(dataset).__name__ == "_FlatMapDataset" and feeding == ["_TensorDataset"]


def _read_generator(dataset: tf.data.Dataset) -> Step:
    generator = find_generator(dataset)
    draws = generator is not None and draws_random_numbers(generator)
    return Step(
        Kind.GENERATOR,
        "from_generator",
        f"from_generator({getattr(generator, '__name__', '')})",
        handle=dataset,
        hides=frozenset({"generator", "random"} if draws else {"generator"}),
        element_bytes=element_bytes(dataset.element_spec),
        looks_batched=looks_batched(dataset.element_spec),
    )


def _inputs_of(dataset: tf.data.Dataset) -> list[tf.data.Dataset]:
    """What feeds a step: of readers the file names, and what a step chooses by comes last."""
    if type(dataset).__name__ in READERS:
        names = dataset._filenames
        return [names] if isinstance(names, tf.data.Dataset) else []
    if type(dataset).__name__ == "_DirectedInterleaveDataset":
        return [*dataset._data_inputs, dataset._selector_input]
    return list(dataset._inputs())


def _num_elements(dataset: tf.data.Dataset) -> int | None:
    cardinality = int(dataset.cardinality())
    return None if cardinality < 0 else cardinality


def _changes_order(dataset: tf.data.Dataset) -> bool:
    """Whether a shuffle or source of random numbers makes something else of each pass."""
    again = getattr(dataset, "_reshuffle_each_iteration", getattr(dataset, "_rerandomize", None))
    return again is True or (type(dataset).__name__ == "_ShuffleDataset" and again is not False)


def _may_lack_order(dataset: tf.data.Dataset) -> bool:
    """True also for a parallel `interleave`, which does not remember whether it keeps the order."""
    unknown = "false" if type(dataset).__name__ == "_ParallelInterleaveDataset" else ""
    return bool(getattr(dataset, "_deterministic", unknown) == "false")


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
        is_default = (method, value) in (("repeat", -1), ("prefetch", tf.data.AUTOTUNE))
        if value is not None and not is_default:
            shown.append(str(value))
    if kind is Kind.CACHE and file_of(dataset):
        shown.append(repr(file_of(dataset)))
    if _value(dataset, "_drop_remainder"):
        shown.append("drop_remainder=True")
    if kind is Kind.FUNCTION and traced_functions(dataset):
        shown.append(getattr(traced_functions(dataset)[0]._func, "__name__", "function"))
    if kind is Kind.SHUFFLE and _value(dataset, "_reshuffle_each_iteration") is False:
        shown.append("reshuffle_each_iteration=False")
    return f"{method}({', '.join(shown)})"


def _describe_seeds(seeds: list[Any]) -> str:
    """The seed as the user may have given it."""
    if seeds in ([None, None], [0, 0]):
        return ""
    if seeds[0] == random_seed.DEFAULT_GRAPH_SEED:
        return str(seeds[1])
    return f"{seeds[0]}, {seeds[1]}"


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
