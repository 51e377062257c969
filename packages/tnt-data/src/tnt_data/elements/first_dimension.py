"""What shapes tell about the first dimension of elements, as plain data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FirstDimension:
    """What the shapes of elements tell about batches, where no transformation does."""

    is_common: bool = False  # Keras takes it for the batch
    size: int | None = None  # None if it is open or there is none
    may_be_of_samples: bool = False  # whether the shapes are rather those of single samples
