"""Sources whose elements are computed or lie in memory."""

from __future__ import annotations

import tensorflow as tf

from tnt_data.description.transformation import Kind, Trait, Transformation
from tnt_data.tensorflow_private import InspectedDataset
from tnt_data.transformations.dataset_class import DatasetClass

CLASSES = (
    DatasetClass("RangeDataset", "range", Kind.SOURCE),
    DatasetClass("TensorSliceDataset", "from_tensor_slices", Kind.SOURCE, traits=Trait.IN_MEMORY),
    DatasetClass("TensorDataset", "from_tensors", Kind.SOURCE),
    DatasetClass("SparseTensorSliceDataset", "from_sparse_tensor_slices", Kind.SOURCE),
)


def some_rows(source: Transformation, num_rows: int) -> list[tf.Tensor]:
    """Return up to twice `num_rows` rows of each array of `from_tensor_slices`; of others none."""
    if Trait.IN_MEMORY not in source.traits:
        return []
    arrays = InspectedDataset(source.dataset).argument("tensors", ())
    numbers = [array for array in arrays if array.dtype not in (tf.string, tf.variant)]
    return [array[:: max(1, array.shape[0] // num_rows)] for array in numbers]
