"""Operations that make a row for each sample of values of other numbers: ragged, sparse, merged.

All lanes have such values whole. Where they become dense, each lane goes on with its own rows,
which sends nothing and is right for any value, also of the batch's size by chance.
"""

from __future__ import annotations

from collections.abc import Callable

from tnt_keras.partition.rules.registry import Operation


def gives_rows(operation: Operation) -> bool:
    """Return whether an operation on replicated values gives one output with the batch's rows."""
    is_given = _TABLE.get(operation.type)
    if is_given is None or not operation.outputs[0].shape:
        return False
    size = operation.outputs[0].shape[0]
    return size in (None, operation.num_rows) and is_given(operation, size)


def _of_this_size(operation: Operation, size: int | None) -> bool:
    return size is not None


def _of_unknown_size_before(operation: Operation, size: int | None) -> bool:
    shape = operation.inputs[0].shape
    return size is not None and shape is not None and len(shape) > 0 and shape[0] is None


def _ragged_to_tensor(operation: Operation, size: int | None) -> bool:
    """Look at the outermost partition of rows, and at the size that is demanded, if any is."""
    demanded = (operation.inputs[0].known_elements or (None,))[0]
    kinds = operation.attributes["row_partition_types"]
    outermost = operation.inputs[3]
    if kinds[0] == b"ROW_SPLITS":
        has_rows = outermost.shape == (operation.num_rows + 1,)
    else:
        has_rows = outermost.known_elements == (operation.num_rows,)
    return has_rows and demanded in (-1, operation.num_rows)


_TABLE: dict[str, Callable[[Operation, int | None], bool]] = {
    "RaggedTensorToTensor": _ragged_to_tensor,
    "Reshape": _of_unknown_size_before,
    "SparseTensorDenseMatMul": _of_this_size,
    "SparseToDense": _of_this_size,
    "UnsortedSegmentMax": _of_this_size,
    "UnsortedSegmentMin": _of_this_size,
    "UnsortedSegmentProd": _of_this_size,
    "UnsortedSegmentSum": _of_this_size,
}
