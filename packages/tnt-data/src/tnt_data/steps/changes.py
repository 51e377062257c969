"""What becomes different when a step is repeated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tensorflow as tf

from tnt_data.tensorflow_private import OpenStep


@dataclass(frozen=True)
class Changes:
    """What becomes different when a step is repeated.

    Attributes:
        seed: Seed for a shuffle or random source without one; others keep theirs.
        cache_suffix: Appended to the file name of a cache on disk, since two processes cannot
            share one.
        rank: Rank of the caller, for random numbers that ranks draw for their own samples.
    """

    seed: int
    cache_suffix: str = ""
    rank: int = 0


Inputs = Sequence[tf.data.Dataset]
Replay = Callable[[OpenStep, Inputs, Changes], tf.data.Dataset]
"""Makes a dataset like the given step, fed by other inputs, with changes."""
