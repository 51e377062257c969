"""Sources whose elements are computed or lie in memory."""

from __future__ import annotations

from tnt_data.description.transformation import Kind, Trait
from tnt_data.transformations.dataset_class import DatasetClass

CLASSES = (
    DatasetClass("RangeDataset", "range", Kind.SOURCE),
    DatasetClass("TensorSliceDataset", "from_tensor_slices", Kind.SOURCE, traits=Trait.IN_MEMORY),
    DatasetClass("TensorDataset", "from_tensors", Kind.SOURCE),
    DatasetClass("SparseTensorSliceDataset", "from_sparse_tensor_slices", Kind.SOURCE),
)
