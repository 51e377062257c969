"""Random draws: those of the serial run, of which each lane computes its rows."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from tnt_keras.partition.placement import Rows
from tnt_keras.partition.reshard import Layout
from tnt_keras.partition.traced import Node
from tnt_keras.partition.value import Value

_DRAWS = {
    "StatelessRandomNormalV2",
    "StatelessRandomUniformFullIntV2",
    "StatelessRandomUniformIntV2",
    "StatelessRandomUniformV2",
    "StatelessTruncatedNormalV2",
}


def is_draw(operation_type: str) -> bool:
    """Return whether rows of such a draw can be computed without the rest."""
    return operation_type in _DRAWS


def rows_of_draw(
    node: Node, operands: Sequence[tf.Tensor], whole: Value, rows: Rows, layout: Layout
) -> list[tf.Tensor] | None:
    """Return the rows that each lane has of a draw, None if they must be cut from all of it.

    Args:
        node: The draw.
        operands: Its inputs, the same in all lanes.
        whole: What is known of all of it.
        rows: Where the rows are.
        layout: The lanes.
    """
    return None
