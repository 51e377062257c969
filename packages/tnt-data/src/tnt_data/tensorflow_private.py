"""The only module that touches undocumented parts of TensorFlow: the classes behind steps.

Others know a step by one of the names below and by the arguments that it was made with. On a
release that is not known nothing is imported here, since even that might fail, and nothing but
`is_known_version` may be used.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

KNOWN_VERSIONS = ((2, 18), (2, 19), (2, 20), (2, 21))


def is_known_version() -> bool:
    """Whether this release of TensorFlow is one whose step classes were tested. Local."""
    major, minor = tf.__version__.split(".")[:2]
    return (int(major), int(minor)) in KNOWN_VERSIONS


if is_known_version():
    from tensorflow.python.data.ops import dataset_ops, directed_interleave_op, ragged_batch_op
    from tensorflow.python.data.util import nest, structure
    from tensorflow.python.eager import context
    from tensorflow.python.framework import config, op_def_registry, random_seed

CLASSES = {
    "_RangeDataset": "range",
    "_TensorSliceDataset": "from_tensor_slices",
    "_TensorDataset": "from_tensors",
    "_SparseTensorSliceDataset": "from_sparse_tensor_slices",
    "TFRecordDatasetV2": "TFRecordDataset",
    "TextLineDatasetV2": "TextLineDataset",
    "FixedLengthRecordDatasetV2": "FixedLengthRecordDataset",
    "_RandomDataset": "random",
    "_BatchDataset": "batch",
    "_ParallelBatchDataset": "parallel batch",
    "_PaddedBatchDataset": "padded_batch",
    "_DenseToSparseBatchDataset": "sparse_batch",
    "_RebatchDataset": "rebatch",
    "_UnbatchDataset": "unbatch",
    "_ShuffleDataset": "shuffle",
    "CacheDataset": "cache",
    "_SnapshotDataset": "snapshot",
    "_PrefetchDataset": "prefetch",
    "_RepeatDataset": "repeat",
    "_TakeDataset": "take",
    "_SkipDataset": "skip",
    "_ShardDataset": "shard",
    "_OptionsDataset": "with_options",
    "_AssertCardinalityDataset": "assert_cardinality",
    "_MapDataset": "map",
    "_ParallelMapDataset": "parallel map",
    "_FilterDataset": "filter",
    "_TakeWhileDataset": "take_while",
    "_ScanDataset": "scan",
    "_DenseToRaggedDataset": "ragged",
    "_UniqueDataset": "unique",
    "_IgnoreErrorsDataset": "ignore_errors",
    "_RestructuredDataset": "restructure",
    "_FlatMapDataset": "flat_map",
    "_InterleaveDataset": "interleave",
    "_ParallelInterleaveDataset": "parallel interleave",
    "_GroupByWindowDataset": "group_by_window",
    "_WindowDataset": "window",
    "_ZipDataset": "zip",
    "_ConcatenateDataset": "concatenate",
    "_DirectedInterleaveDataset": "sample_from_datasets",
}
"""The names of steps, by the class that TensorFlow has for them."""

_READERS = ("TFRecordDataset", "TextLineDataset")


@dataclass(frozen=True)
class TracedFunction:
    """A function that a step calls for its elements, traced already.

    Attributes:
        code: The Python function.
        function: The traced one, of flat tensors.
        takes: Spec of the element that it is called with; a tuple stands for several arguments.
        gives: Spec of its result.
    """

    code: Any
    function: Any
    takes: Any
    gives: Any

    def to_tensors(self, element: Any) -> list[tf.Tensor]:
        """What the traced function is to be called with, for an element. Local."""
        tensors: list[tf.Tensor] = structure.to_tensor_list(self.takes, element)
        return tensors

    def from_tensors(self, results: Sequence[tf.Tensor]) -> Any:
        """The result, given what the traced function returns. Local."""
        return structure.from_compatible_tensor_list(self.gives, results)


class OpenStep:
    """A dataset object whose class and arguments can be read."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self.dataset = dataset
        self.name: str = CLASSES.get(type(dataset).__name__, "")
        """One of the names in `CLASSES`; empty for a class that is not known."""

    @property
    def class_name(self) -> str:
        """What TensorFlow calls it."""
        return type(self.dataset).__name__.strip("_")

    def argument(self, name: str, *default: Any) -> Any:
        """What the step was made with, a tensor or Python value; if not given, `default`. Local."""
        return getattr(self.dataset, f"_{name}", *default)

    @property
    def cycle_length(self) -> Any:
        """How many datasets or files it reads by turns; None if it does not."""
        reader = self.argument("impl") if self.name in _READERS else self.dataset
        return getattr(reader, "_cycle_length", None)

    @property
    def inputs(self) -> list[tf.data.Dataset]:
        """What feeds it: of readers the file names, and what a step chooses by comes last."""
        if self.name in _READERS:
            names = self.argument("filenames")
            return [names] if isinstance(names, tf.data.Dataset) else []
        if self.name == "sample_from_datasets":
            return [*self.argument("data_inputs"), self.argument("selector_input")]
        return list(self.dataset._inputs())

    @property
    def functions(self) -> list[TracedFunction]:
        """The functions that it calls for its elements."""
        return [
            TracedFunction(one._func, one.function, one._input_structure, one.output_structure)
            for one in self.dataset._functions()
        ]


def repeat_operation(
    dataset: tf.data.Dataset,
    source: tf.data.Dataset | None,
    operation: Any,
    arguments: Mapping[str, Any],
    changed: Mapping[str, Any],
) -> tf.data.Dataset:
    """A copy of a step with another input and operation, but the same types of elements. Local.

    Args:
        dataset: The step.
        source: New input with the same types and shapes as the old one; None for a source.
        operation: The raw operation behind the step.
        arguments: What the operation needs besides the input and the types of the elements.
        changed: Arguments of which the copy remembers others than the step.
    """
    repeated = copy.copy(dataset)
    for name in [name for name in vars(repeated) if name.startswith("_tnt_data")]:
        delattr(repeated, name)  # what this package remembers about the step
    for name, value in changed.items():
        setattr(repeated, f"_{name}", value)
    if source is not None:
        repeated._input_dataset = source
        arguments = {"input_dataset": source._variant_tensor, **arguments}
    variant = operation(**arguments, **repeated._common_args)
    dataset_ops.DatasetV2.__init__(repeated, variant)
    return repeated


def dataset_of(variant: tf.Tensor, spec: Any) -> tf.data.Dataset:
    """The dataset that an operation has made. Local."""
    return dataset_ops._VariantDataset(variant, spec)


def restructured(source: tf.data.Dataset, spec: Any) -> tf.data.Dataset:
    """The same elements in another structure. Local."""
    return dataset_ops._RestructuredDataset(source, spec)


def ragged(source: tf.data.Dataset, row_splits: tf.DType, name: str | None) -> tf.data.Dataset:
    """The first step of `ragged_batch`. Local."""
    return ragged_batch_op._DenseToRaggedDataset(source, row_splits, name)


def chosen(
    selector: tf.data.Dataset, sources: list[tf.data.Dataset], stop_on_empty: bool
) -> tf.data.Dataset:
    """The last step of `sample_from_datasets` and `choose_from_datasets`. Local."""
    return directed_interleave_op._DirectedInterleaveDataset(selector, sources, stop_on_empty)


def flatten_up_to(shallow: Any, element: Any) -> list[Any]:
    """The parts of an element in the places of a structure's leaves; lists are tensors. Local."""
    parts: list[Any] = nest.flatten_up_to(shallow, element)
    return parts


def pack(shallow: Any, parts: list[Any]) -> Any:
    """The element with these parts, the opposite of `flatten_up_to`. Local."""
    return nest.pack_sequence_as(shallow, parts)


def generator_of(dataset: tf.data.Dataset) -> Callable[..., Any] | None:
    """The user's function behind what `from_generator` made; None if not found. Local.

    Args:
        dataset: The `flat_map` that such a dataset consists of.
    """
    for outer in _held_by(OpenStep(dataset).functions[0].code):
        for state in _held_by(outer):
            generator: Callable[..., Any] | None = getattr(state, "_generator", None)
            if callable(generator):
                return generator
    return None


def _held_by(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not yet filled
            yield cell.cell_contents


def seeds_of(seed: int) -> tuple[int, int]:
    """The two numbers that `seed=seed` means to a step while there is no global seed. Local."""
    return random_seed.DEFAULT_GRAPH_SEED, random_seed._truncate_seed(seed)


def definition_of(operation: str) -> Any:
    """How TensorFlow defines an operation of a graph; None if it is a function. Local."""
    return op_def_registry.get(operation)


def is_op_determinism_enabled() -> bool:
    """Whether the user asked for results that are the same in every run. Local."""
    return bool(config.is_op_determinism_enabled())


def add_function(definition: Any) -> None:
    """Makes a function known that graphs may call by its name. Local."""
    context.context().add_function_def(definition)
