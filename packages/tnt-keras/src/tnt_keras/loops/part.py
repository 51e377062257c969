"""Which part of a global batch a tensor holds: what an element of a distributed dataset knows."""

from __future__ import annotations

import dataclasses
from typing import Any

import tensorflow as tf

_ATTRIBUTE = "_tnt_part"


@dataclasses.dataclass(frozen=True, eq=False)
class Part:
    """The rows of one rank in one global batch.

    Attributes:
        num_local: Samples of this rank; 0 if it has a duplicate of the first one instead.
        num_global: Samples of the global batch.
    """

    num_local: int
    num_global: int

    def mark(self, rows: Any) -> Any:
        """Return rows that are known to be this part. Local.

        Args:
            rows: Any structure of eager tensors.
        """
        for leaf in tf.nest.flatten(rows):
            setattr(leaf, _ATTRIBUTE, self)
        return rows


def part_of(tensor: Any) -> Part | None:
    """Return the part that a tensor is known to hold, None if it may be a global batch. Local.

    Args:
        tensor: Anything.
    """
    return getattr(tensor, _ATTRIBUTE, None)
