"""Describes a dataset step by step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tnt_data.pipeline import JOINS_SAMPLES, BatchParameters, Kind, Step
from tnt_data.python_code import draws_random_numbers
from tnt_data.shapes import element_bytes, looks_batched, row_bytes, rows_are_independent
from tnt_data.steps.functions import find_hidden
from tnt_data.steps.kinds import KINDS
from tnt_data.steps.maps import (
    calls_in_order,
    is_identity_map,
    is_map,
    is_row_wise_map,
    needs_all,
)
from tnt_data.steps.replaying import REPLAYS, SEEDS_INSIDE
from tnt_data.steps.storing import file_of
from tnt_data.tensorflow_private import OpenStep, generator_of, is_known_version, seeds_of

_SHOWN = (
    "buffer_size",
    "count",
    "batch_size",
    "batch_sizes",
    "num_shards",
    "index",
)


def read_pipeline(dataset: tf.data.Dataset) -> Step:
    """Describes a dataset and everything that feeds it. Local.

    With an unknown release of TensorFlow, and inside a `tf.function`, where values cannot be read,
    the whole pipeline is one step of kind `OPAQUE`.
    """
    if is_known_version() and tf.executing_eagerly():
        return _read_known(dataset)
    batched = looks_batched(dataset.element_spec)
    return Step(Kind.OPAQUE, "dataset", "the dataset", handle=dataset, looks_batched=batched)


def _read_known(dataset: tf.data.Dataset) -> Step:
    step = OpenStep(dataset)
    hides = _find_hidden(step)
    feeding = step.inputs
    if "generator" in hides and _is_from_generator(step, feeding):
        return _read_generator(dataset)
    kind = KINDS.get(step.name, Kind.OPAQUE)
    method = step.name.removeprefix("parallel ") or step.class_name
    seeds = [_value(step, "seed"), _value(step, "seed2")]
    seeds_inside = "shuffle" in hides and step.name in SEEDS_INSIDE
    return Step(
        kind,
        method,
        _describe(step, kind, method),
        inputs=tuple(_read_known(one) for one in feeding),
        handle=dataset,
        batch=_read_batch(step, feeding) if kind in JOINS_SAMPLES else None,
        seeds=_describe_seeds(seeds),
        lacks_seed=kind in (Kind.SHUFFLE, Kind.RANDOM) and seeds == [0, 0],
        lacks_seed_inside=seeds_inside,
        changes_order=_changes_order(step) or seeds_inside,
        lacks_order=_may_lack_order(step),
        depends_on_cores=bool(_plain(step.cycle_length) == tf.data.AUTOTUNE),
        cache_file=file_of(step) if kind is Kind.CACHE else "",
        hides=hides,
        calls_in_order=calls_in_order(step),
        is_map=is_map(step),
        is_row_wise=is_row_wise_map(step),
        needs_all=needs_all(step, hides),
        changes_nothing=is_identity_map(step),
        element_bytes=element_bytes(dataset.element_spec),
        num_elements=_num_elements(dataset),
        looks_batched=looks_batched(dataset.element_spec),
        same_elements=len(feeding) == 1 and dataset.element_spec == feeding[0].element_spec,
        can_be_rebuilt=step.name in REPLAYS,
    )


def _find_hidden(step: OpenStep) -> frozenset[str]:
    hides = find_hidden(step.functions)
    if "shuffle" in hides and is_map(step) and not _yields_datasets(step.dataset):
        # A shuffle inside of a sample: for others it makes no difference.
        return hides - {"shuffle"} | {"random"}
    return hides


def _yields_datasets(dataset: tf.data.Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return any(isinstance(spec, tf.data.DatasetSpec) for spec in specs)


def _is_from_generator(step: OpenStep, feeding: list[tf.data.Dataset]) -> bool:
    """`from_generator` is made of a `flat_map` over a single element."""
    return step.name == "flat_map" and [OpenStep(one).name for one in feeding] == ["from_tensors"]


def _read_generator(dataset: tf.data.Dataset) -> Step:
    generator = generator_of(dataset)
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


def _num_elements(dataset: tf.data.Dataset) -> int | None:
    cardinality = int(dataset.cardinality())
    return None if cardinality < 0 else cardinality


def _changes_order(step: OpenStep) -> bool:
    """Whether a shuffle or source of random numbers makes something else of each pass."""
    if step.name == "shuffle":
        return step.argument("reshuffle_each_iteration") is not False
    return step.name == "random" and step.argument("rerandomize") is True


def _may_lack_order(step: OpenStep) -> bool:
    """True also for a parallel `interleave`, which does not remember whether it keeps the order."""
    unknown = "false" if step.name == "parallel interleave" else ""
    return bool(step.argument("deterministic", unknown) == "false")


def _value(step: OpenStep, argument: str) -> Any:
    return _plain(step.argument(argument, None))


def _plain(tensor: Any) -> Any:
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    return value.tolist() if hasattr(value, "tolist") else value


def _describe(step: OpenStep, kind: Kind, method: str) -> str:
    """The step as the user may have written it, with the arguments that matter here."""
    shown = []
    for name in _SHOWN if kind not in (Kind.SOURCE, Kind.OPAQUE) else ():
        value = _value(step, name)
        is_default = (method, value) in (("repeat", -1), ("prefetch", tf.data.AUTOTUNE))
        if value is not None and not is_default:
            shown.append(str(value))
    if kind is Kind.CACHE and file_of(step):
        shown.append(repr(file_of(step)))
    if _value(step, "drop_remainder"):
        shown.append("drop_remainder=True")
    if kind is Kind.FUNCTION and step.functions:
        shown.append(getattr(step.functions[0].code, "__name__", "function"))
    if kind is Kind.SHUFFLE and _value(step, "reshuffle_each_iteration") is False:
        shown.append("reshuffle_each_iteration=False")
    return f"{method}({', '.join(shown)})"


def _describe_seeds(seeds: list[Any]) -> str:
    """The seed as the user may have given it."""
    if seeds in ([None, None], [0, 0]):
        return ""
    first, second = seeds
    return str(second) if first == seeds_of(second)[0] else f"{first}, {second}"


def _read_batch(step: OpenStep, feeding: list[tf.data.Dataset]) -> BatchParameters:
    sizes = _value(step, "batch_size")
    if sizes is None:
        sizes = _value(step, "batch_sizes")
    size = sizes if isinstance(sizes, int) else None
    drop_remainder = bool(_value(step, "drop_remainder"))
    if not _rows_are_independent(step, feeding):
        return BatchParameters(size, drop_remainder, False, None)
    return BatchParameters(size, drop_remainder, True, row_bytes(step.dataset.element_spec))


def _rows_are_independent(step: OpenStep, feeding: list[tf.data.Dataset]) -> bool:
    if step.name == "padded_batch":
        shapes = tf.nest.flatten(step.argument("padded_shapes"))
        return all((shape.numpy() >= 0).all() for shape in shapes)
    return len(feeding) == 1 and rows_are_independent(feeding[0].element_spec)
