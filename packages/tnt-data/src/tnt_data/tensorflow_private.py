"""The only module that touches undocumented parts of TensorFlow, on releases that were tested."""

# TensorFlow has one class for each transformation of tf.data. Other modules know a dataset object
# by the name of its class and by the arguments that it was made with, both without the underscores
# that mark them as private. On a release that is not known nothing is imported here, since even
# that might fail, and nothing but `is_known_version` may be used.

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

KNOWN_VERSIONS = ((2, 18), (2, 19), (2, 20), (2, 21))


def is_known_version() -> bool:
    """Return whether the dataset classes of this release of TensorFlow were tested. Local."""
    major, minor = tf.__version__.split(".")[:2]
    return (int(major), int(minor)) in KNOWN_VERSIONS


if is_known_version():
    from tensorflow.python.data.ops import dataset_ops
    from tensorflow.python.data.util import nest, structure
    from tensorflow.python.eager import context
    from tensorflow.python.framework import config, op_def_registry, random_seed
    from tensorflow.python.ops import script_ops


@dataclass(frozen=True)
class TracedFunction:
    """A function that a transformation calls for its elements, traced already."""

    code: Any  # the Python function
    function: Any  # the traced one, of flat tensors
    takes: Any  # spec of the element that it is called with; a tuple: several arguments
    gives: Any

    def to_tensors(self, element: Any) -> list[tf.Tensor]:
        """Return what the traced function is to be called with, for an element. Local."""
        tensors: list[tf.Tensor] = structure.to_tensor_list(self.takes, element)
        return tensors

    def from_tensors(self, results: Sequence[tf.Tensor]) -> Any:
        """Return the result, given what the traced function returns. Local."""
        return structure.from_compatible_tensor_list(self.gives, results)


class InspectedDataset:
    """A dataset object whose class and arguments can be read."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        self.dataset = dataset
        self.class_name: str = type(dataset).__name__.strip("_")  # without underscores around it

    def argument(self, name: str, *default: Any) -> Any:
        """Return what it was made with: a tensor or Python value, or else `default`. Local."""
        return getattr(self.dataset, f"_{name}", *default)

    def value(self, name: str) -> Any:
        """Return what it was made with as a Python value; None without such an argument. Local."""
        return plain_value(self.argument(name, None))

    @property
    def inputs(self) -> list[tf.data.Dataset]:
        """The datasets that TensorFlow says it is fed by."""
        return list(self.dataset._inputs())

    @property
    def functions(self) -> list[TracedFunction]:
        """The functions that it calls for its elements."""
        return [
            TracedFunction(one._func, one.function, one._input_structure, one.output_structure)
            for one in self.dataset._functions()
        ]


def plain_value(tensor: Any) -> Any:
    """Return a tensor or number of numpy as a Python value, other things as they are. Local."""
    value = tensor.numpy() if hasattr(tensor, "numpy") else tensor
    return value.tolist() if hasattr(value, "tolist") else value


def rebuild_by_operation(
    dataset: tf.data.Dataset,
    # of the same types and shapes as the old one; None for a source
    source: tf.data.Dataset | None,
    operation: Any,
    # what the operation needs besides the input and the types of the elements
    arguments: Mapping[str, Any],
    changed: Mapping[str, Any],  # arguments of which the copy remembers others than the original
) -> tf.data.Dataset:
    """Copy a dataset object with another input and operation, but the same types. Local."""
    copied = copy.copy(dataset)
    for name in [name for name in vars(copied) if name.startswith("_tnt_data")]:
        delattr(copied, name)  # what this package remembers about the original
    for name, value in changed.items():
        setattr(copied, f"_{name}", value)
    if source is not None:
        copied._input_dataset = source
        arguments = {"input_dataset": source._variant_tensor, **arguments}
    variant = operation(**arguments, **copied._common_args)
    dataset_ops.DatasetV2.__init__(copied, variant)
    return copied


def rebuild_by_constructor(dataset: tf.data.Dataset, *arguments: Any) -> tf.data.Dataset:
    """Make another dataset of the same class. Local."""
    constructor: Any = type(dataset)
    rebuilt: tf.data.Dataset = constructor(*arguments)
    return rebuilt


def dataset_of(variant: tf.Tensor, spec: Any) -> tf.data.Dataset:
    """Return the dataset that an operation has made. Local."""
    return dataset_ops._VariantDataset(variant, spec)


def flatten_up_to(shallow: Any, element: Any) -> list[Any]:
    """Return the parts of an element at a structure's leaves; lists are tensors. Local."""
    parts: list[Any] = nest.flatten_up_to(shallow, element)
    return parts


def pack(shallow: Any, parts: list[Any]) -> Any:
    """Return the element with these parts, the opposite of `flatten_up_to`. Local."""
    return nest.pack_sequence_as(shallow, parts)


def generator_of(dataset: tf.data.Dataset) -> Callable[..., Any] | None:
    """Return the user's function behind what `from_generator` made; None if not found. Local."""
    for outer in _held_by(InspectedDataset(dataset).functions[0].code):
        for state in _held_by(outer):
            generator: Callable[..., Any] | None = getattr(state, "_generator", None)
            if callable(generator):
                return generator
    return None


def python_code_of(node: Any) -> Any:
    """Return the function that a node of a graph calls in Python; None if it is gone. Local."""
    function = script_ops._py_funcs.get(node.attr["token"].s.decode())
    return getattr(function, "_func", function)


def _held_by(function: Any) -> Iterator[Any]:
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # not yet filled
            yield cell.cell_contents


def seeds_of(seed: int) -> tuple[int, int]:
    """Return the two numbers that `seed=seed` means while there is no global seed. Local."""
    return random_seed.DEFAULT_GRAPH_SEED, random_seed._truncate_seed(seed)


def definition_of(operation: str) -> Any:
    """Return how TensorFlow defines an operation of a graph; None for a function. Local."""
    return op_def_registry.get(operation)


def is_op_determinism_enabled() -> bool:
    """Return whether the user asked for results that are the same in every run. Local."""
    return bool(config.is_op_determinism_enabled())


def add_function(definition: Any) -> None:
    """Register a function that graphs may call by its name. Local."""
    context.context().add_function_def(definition)
