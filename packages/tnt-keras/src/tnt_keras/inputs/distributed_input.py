"""What Keras is given on one rank in place of the user's input."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class DistributedInput:
    """What Keras is given on this rank in place of the user's input.

    Attributes:
        data: For Keras' `x`: a dataset, or an adapter of one that Python code makes.
        batch_spec: Specs of the batches that the model's own steps receive.
        batch_size: Size of the global batch, None if it is not known.
        is_compared: Whether ranks compare their data at the beginning of each step, and therefore
            at the end of each epoch too.
        epochs_are_independent: Whether an epoch is the same if those before it were begun, but not
            read.
        irreproducible: What makes another process see other samples, in sentences.
    """

    data: Any
    batch_spec: Any
    batch_size: int | None
    is_compared: bool
    epochs_are_independent: bool = False
    irreproducible: tuple[str, ...] = ()
