"""Random draws: each lane computes its rows of those of the serial run."""

from __future__ import annotations

import math
from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.partition.draw_rows import DTYPES_OF_DRAWS, draw_rows
from tnt_keras.partition.flat_graph import Node
from tnt_keras.partition.placement import Rows
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.value import Value


def is_draw(operation_type: str) -> bool:
    """Return whether rows of such a draw can be computed without the rest."""
    return operation_type in DTYPES_OF_DRAWS


def rows_of_draw(
    node: Node, operands: Sequence[tf.Tensor], whole: Value, rows: Rows, layout: Layout
) -> list[tf.Tensor] | None:
    """Return each lane's rows of a draw, None if they must be cut from the whole draw."""
    sizes = [size for size in whole.shape or () if size is not None]
    if len(sizes) < whole.rank or rows.inner is None:
        return None
    counts = [axis == rows.axis for axis in range(len(sizes))]
    parts = [
        draw_rows(
            node.type,
            operands,
            whole.dtype,
            layout.integers(sizes, counts, k),
            lead=rows.outer * math.prod(layout.integers(sizes[: rows.axis], None, k)),
            rows=layout.num_rows,
            first=lane,
            step=layout.lanes.total,
        )
        for lane, k in zip(layout.lanes.numbers, layout.lane_rows, strict=True)
    ]
    return (
        None
        if any(part is None for part in parts)
        else [part for part in parts if part is not None]
    )
