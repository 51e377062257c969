"""What is known of one of TensorFlow's dataset classes, all in one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tnt_data.description.transformation import BatchParameters, Kind, Trait
from tnt_data.tensorflow_private import InspectedDataset

Inputs = Sequence[tf.data.Dataset]
Branch = Sequence[tuple[tf.data.Dataset, int]]
"""Zips between a transformation and an element, each with the number of the input that it feeds."""


@dataclass(frozen=True)
class Changes:
    """What becomes different when a transformation is rebuilt."""

    seed: int  # for a shuffle or random source without one; others keep theirs
    cache_suffix: str = ""  # of a file on disk, since two processes cannot share one
    rank: int = 0  # of the caller, for random numbers that ranks draw for their own samples


Rebuild = Callable[[InspectedDataset, Inputs, Changes], tf.data.Dataset]
"""Makes a dataset like the given one, fed by other inputs, with changes."""

RebuildWithNumbers = Callable[[InspectedDataset, Branch, tf.data.Dataset, Changes], tf.data.Dataset]
"""Makes a dataset like the given one on elements `(numbers, element)`, see `rebuild`."""


def _own_inputs(inspected: InspectedDataset) -> list[tf.data.Dataset]:
    return inspected.inputs


def _no_details(inspected: InspectedDataset) -> list[str]:
    return []


def _never(inspected: InspectedDataset) -> bool:
    return False


def _no_file(inspected: InspectedDataset) -> str:
    return ""


def _is_nondeterministic(inspected: InspectedDataset) -> bool:
    return bool(inspected.argument("deterministic", "") == "false")


def _cycle_length(inspected: InspectedDataset) -> Any:
    return inspected.value("cycle_length")


@dataclass(frozen=True)
class DatasetClass:
    """All that is known of a dataset class of TensorFlow; functions get the dataset object."""

    class_name: str  # what TensorFlow calls it, without underscores around it
    name: str  # the method or function that makes such datasets
    kind: Kind
    rebuild: Rebuild | None = None  # does the same to other inputs; None if that is not possible
    # to elements that carry numbers; None if `rebuild` does
    rebuild_with_numbers: RebuildWithNumbers | None = None
    traits: Trait = Trait.NONE
    inputs: Callable[[InspectedDataset], list[tf.data.Dataset]] = _own_inputs  # what feeds them
    # the arguments that are shown after the name
    details: Callable[[InspectedDataset], list[str]] = _no_details
    # how they join samples, given their inputs too
    batch: Callable[[InspectedDataset, Inputs], BatchParameters] | None = None
    # make exactly one element of each, and of that one alone
    is_map: Callable[[InspectedDataset], bool] = _never
    can_map_parts: bool = False  # apply one function to each element, or part of an element
    seeds_inside: bool = False  # `rebuild` seeds the shuffles in their functions
    # the order, or the elements, are others in every pass
    changes_order: Callable[[InspectedDataset], bool] = _never
    # were asked for `deterministic=False`
    is_nondeterministic: Callable[[InspectedDataset], bool] = _is_nondeterministic
    # datasets or files that they read by turns; None if they do not
    cycle_length: Callable[[InspectedDataset], Any] = _cycle_length
    # where they store elements; empty for memory
    file: Callable[[InspectedDataset], str] = _no_file


def shown(*names: str, unless: Any = None) -> Callable[[InspectedDataset], list[str]]:
    """Return a function that lists arguments for a table: `3`, or `name=True`. Local."""

    def details(inspected: InspectedDataset) -> list[str]:
        values = [(name, inspected.value(name)) for name in names]
        return [
            f"{name}=True" if value is True else str(value)
            for name, value in values
            if value is not None and value is not False and value != unless
        ]

    return details


def by_method(method: str, *arguments: str) -> Rebuild:
    """Return a `rebuild` that calls a public method with the same arguments. Local."""

    def rebuild(inspected: InspectedDataset, inputs: Inputs, changes: Changes) -> tf.data.Dataset:
        given = (inspected.argument(name) for name in arguments)
        name = inspected.argument("name")
        rebuilt: tf.data.Dataset = getattr(inputs[0], method)(*given, name=name)
        return rebuilt

    return rebuild
