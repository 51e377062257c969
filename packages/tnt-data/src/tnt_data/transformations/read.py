"""Read the description of a pipeline from a dataset object."""

from __future__ import annotations

import functools
import logging
from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import Kind, Transformation
from tnt_data.elements.specs import element_bytes, first_dimension
from tnt_data.functions.contents import contents_of, is_identity
from tnt_data.functions.python_code import place_of
from tnt_data.functions.row_wise import is_row_wise
from tnt_data.tensorflow_private import InspectedDataset, is_known_version, seeds_of
from tnt_data.transformations.call_order import calls_in_order, reason_to_run_for_all
from tnt_data.transformations.catalogue import class_of
from tnt_data.transformations.dataset_class import DatasetClass
from tnt_data.transformations.generator import is_from_generator, read_generator

_logger = logging.getLogger("tnt_data")


def read_transformations(
    dataset: tf.data.Dataset,
    already_read: Transformation | None = None,  # of what feeds this one; not read again
) -> Transformation:
    """Describe a dataset and everything that feeds it. Local."""
    # With an unknown release of TensorFlow, which is a warning, and inside a `tf.function`, where
    # values cannot be read, the whole pipeline is one transformation of kind `OPAQUE`.
    if not is_known_version():
        warn_of_unknown_release()
    elif tf.executing_eagerly():
        return _read(dataset, already_read)
    rows = first_dimension(dataset.element_spec)
    name, text = "dataset", "the dataset"
    return Transformation(Kind.OPAQUE, name, text, dataset=dataset, first_dimension=rows)


@functools.cache  # once in a process
def warn_of_unknown_release() -> None:
    """Warn that the transformations of this release of TensorFlow are unknown. Local."""
    _logger.warning(
        "tnt-data does not know the transformations of TensorFlow %s. Every rank makes whole "
        "batches and cuts out its rows, and shuffles are left as they are: give them seeds. "
        "[untested-version]",
        tf.__version__,
    )


def _read(dataset: tf.data.Dataset, already_read: Transformation | None) -> Transformation:
    if already_read is not None and dataset is already_read.dataset:
        return already_read
    inspected = InspectedDataset(dataset)
    if is_from_generator(inspected):
        return read_generator(dataset)
    known = class_of(inspected) or _unknown(inspected)
    input_datasets = known.inputs(inspected)
    inputs = tuple(_read(one, already_read) for one in input_datasets)
    return _describe(inspected, known, input_datasets, inputs)


def _unknown(inspected: InspectedDataset) -> DatasetClass:
    return DatasetClass(inspected.class_name, inspected.class_name, Kind.OPAQUE)


def _describe(
    inspected: InspectedDataset,
    known: DatasetClass,
    input_datasets: list[tf.data.Dataset],
    inputs: tuple[Transformation, ...],
) -> Transformation:
    dataset, spec = inspected.dataset, inspected.dataset.element_spec
    is_map = known.is_map(inspected)
    functions = inspected.functions
    contents = _contents(inspected, is_map)
    seeds = [inspected.value("seed"), inspected.value("seed2")]
    seeds_inside = "shuffle" in contents and known.seeds_inside
    return Transformation(
        known.kind,
        known.name,
        f"{known.name}({', '.join(known.details(inspected))})",
        inputs=inputs,
        dataset=dataset,
        traits=known.traits,
        batch=known.batch(inspected, input_datasets) if known.batch else None,
        seeds=_describe_seeds(seeds),
        lacks_seed=known.kind in (Kind.SHUFFLE, Kind.RANDOM) and seeds == [0, 0],
        functions_lack_seed=seeds_inside,
        changes_order=known.changes_order(inspected) or seeds_inside,
        is_nondeterministic=known.is_nondeterministic(inspected),
        depends_on_cores=bool(known.cycle_length(inspected) == tf.data.AUTOTUNE),
        cache_file=known.file(inspected),
        function_contents=contents,
        place=place_of(functions[0].code) if functions else "",
        calls_in_order=calls_in_order(inspected),
        is_map=is_map,
        can_map_parts=known.can_map_parts,
        is_row_wise=known.can_map_parts and is_map and is_row_wise(inspected.functions[0]),
        reason_to_run_for_all=reason_to_run_for_all(inspected, contents),
        changes_nothing=known.can_map_parts and is_identity(inspected.functions[0]),
        element_bytes=element_bytes(spec),
        num_elements=_num_elements(dataset),
        first_dimension=first_dimension(spec),
        same_elements=len(input_datasets) == 1 and spec == input_datasets[0].element_spec,
        can_be_rebuilt=known.rebuild is not None,
    )


def _contents(inspected: InspectedDataset, is_map: bool) -> frozenset[str]:
    contents = contents_of(inspected.functions)
    if "shuffle" in contents and is_map and not _yields_datasets(inspected.dataset):
        # A shuffle inside of a sample: for others it makes no difference.
        return contents - {"shuffle"} | {"random"}
    return contents


def _yields_datasets(dataset: tf.data.Dataset) -> bool:
    specs = tf.nest.flatten(dataset.element_spec)
    return any(isinstance(spec, tf.data.DatasetSpec) for spec in specs)


def _num_elements(dataset: tf.data.Dataset) -> int | None:
    cardinality = int(dataset.cardinality())
    return None if cardinality < 0 else cardinality


def _describe_seeds(seeds: list[Any]) -> str:
    """Return the seed as the user may have given it."""
    if seeds in ([None, None], [0, 0]):
        return ""
    first, second = seeds
    return str(second) if first == seeds_of(second)[0] else f"{first}, {second}"
