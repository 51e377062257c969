"""Collect what is known of dataset classes from the modules that know it."""

from __future__ import annotations

from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations import (
    batches,
    combinations,
    filters,
    flat_maps,
    maps,
    prefetch,
    readers,
    selection,
    shuffle,
    sources,
    storage,
    windows,
)
from tnt_data.transformations.dataset_class import DatasetClass

_MODULES = (
    *(sources, readers, shuffle, selection, prefetch, storage),
    *(batches, maps, filters, flat_maps, windows, combinations),
)

CATALOGUE: dict[str, DatasetClass] = {
    one.class_name: one for module in _MODULES for one in module.CLASSES
}
"""All dataset classes that are known, by what TensorFlow calls them."""


def class_of(inspected: InspectedDataset) -> DatasetClass | None:
    """Return what is known of the class of a dataset, None if it is not known. Local."""
    return CATALOGUE.get(inspected.class_name)
