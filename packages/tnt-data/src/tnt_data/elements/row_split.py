"""Tell which samples of a global batch belong to which rank: numbers only, no TensorFlow.

Rank `r` of `n` takes the rows `r, r + n, r + 2n, ...` of every global batch, which is
`batch[r::n]`. The sizes of two ranks differ by at most one and the low ranks have the larger ones.
With more lanes than ranks the same holds for lanes, of which each rank has several. A rank without
samples still takes part in the step: it computes on one row, a duplicate of the first, that counts
for nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from tnt_data.errors import BatchSizeError


@dataclasses.dataclass(frozen=True)
class RowSplit:
    """Which rows of every global batch a rank takes.

    A batch has `lanes` lanes: lane v of V holds the rows v, v + V, v + 2V, ... Rank r of n takes
    V / n neighbouring lanes, from lane r V / n on, one after the other. With one lane for each
    rank, the default, these are the rows `batch[r::n]`.

    Attributes:
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks that share a batch.
        lanes: Number of lanes of a batch, a multiple of `size`.

    Raises:
        ValueError: If `rank` is not in `[0, size)`, or ranks cannot share the lanes evenly.

    Example:
        >>> list(RowSplit(rank=0, size=2, lanes=4).positions(10))
        [0, 4, 8, 1, 5, 9]
    """

    rank: int
    size: int
    lanes: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_rank(self.rank, self.size)
        if self.lanes < 1 or self.lanes % self.size:
            raise ValueError(
                f"Ranks must have equally many lanes. Received: lanes={self.lanes}, "
                f"size={self.size}."
            )

    @property
    def own_lanes(self) -> range:
        """The lanes of this rank."""
        count = self.lanes // self.size
        return range(self.rank * count, (self.rank + 1) * count)

    def positions(self, batch_size: int) -> Sequence[int]:
        """Return the positions of this rank's rows in a batch, lane by lane. Local.

        Args:
            batch_size: Number of samples in the global batch, even a short one; 0 or more.

        Returns:
            Positions in the batch, counted from 0; as many as `num_rows` says.
        """
        of_lanes = [range(lane, batch_size, self.lanes) for lane in self.own_lanes]
        return of_lanes[0] if len(of_lanes) == 1 else [p for lane in of_lanes for p in lane]

    def num_rows(self, batch_size: int) -> int:
        """Return how many rows of a batch this rank has. Local.

        Args:
            batch_size: Number of samples in the global batch, even a short one; 0 or more.

        Returns:
            The sum over the lanes of this rank.
        """
        return sum(len(range(lane, batch_size, self.lanes)) for lane in self.own_lanes)

    def rows(self, batch_size: int) -> Sequence[int]:
        """Return `positions`, or for a rank without samples that of the duplicate row. Local.

        Args:
            batch_size: Number of samples in the global batch, even a short one; 0 or more.

        Returns:
            At least one position, unless the batch is empty.
        """
        return self.positions(batch_size) or range(0, min(batch_size, 1), self.lanes)


def split_of_dataset(rank: int, size: int, lanes: int | None) -> RowSplit:
    """Return the split of the batches of a dataset: by default each rank has one lane. Local."""
    # One rank has whole batches, in their order: to sort them by lanes would copy them.
    split = RowSplit(rank, size, size if lanes is None else lanes)
    return dataclasses.replace(split, lanes=1) if size == 1 else split


def check_rank(rank: int, size: int) -> None:
    """Raise a ValueError if `rank` is not one of `size` ranks. Local."""
    if size < 1:
        raise ValueError(f"There must be at least one rank. Received: size={size}.")
    if not 0 <= rank < size:
        raise ValueError(f"The rank must lie in [0, size). Received: rank={rank}, size={size}.")


def micro_batch_size(batch_size: int, rank: int, size: int, *, lanes: int | None = None) -> int:
    """Return the number of samples that a rank takes of a global batch. Local.

    Args:
        batch_size: Number of samples in the global batch, even a short one; 0 or more.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks that share the batch.
        lanes: Number of lanes of the batch, by default `size`: see `RowSplit`.

    Returns:
        `len(range(rank, batch_size, size))`; 0 if there are no more samples than ranks before it.
        With lanes the sum over those of the rank.

    Raises:
        ValueError: If `rank` is not in `[0, size)`, `batch_size` is negative, or `lanes` is not a
            multiple of `size`.

    Example:
        >>> [micro_batch_size(14, rank, size=4) for rank in range(4)]
        [4, 4, 3, 3]
    """
    if batch_size < 0:
        raise BatchSizeError(f"A batch has 0 or more samples. Received: batch_size={batch_size}.")
    return RowSplit(rank, size, size if lanes is None else lanes).num_rows(batch_size)


def num_steps(num_samples: int, batch_size: int, drop_remainder: bool) -> int:
    """Return the steps of one pass over `num_samples` samples; the same on every rank. Local."""
    return num_samples // batch_size if drop_remainder else -(-num_samples // batch_size)


def last_batch_size(num_samples: int, batch_size: int, drop_remainder: bool) -> int:
    """Return the samples in the last batch of a pass, 0 if it has no batches. Local."""
    steps = num_steps(num_samples, batch_size, drop_remainder)
    return min(batch_size, num_samples - (steps - 1) * batch_size) if steps else 0


def check_micro_batch_size(micro_batch: int, size: int, batch_size: int | None) -> int:
    """Return the global batch size of a micro-batch size; it must be the dataset's, if any."""
    if micro_batch < 1:
        raise BatchSizeError(
            f"The micro-batch size must be at least 1. Received: micro_batch_size={micro_batch}."
        )
    if batch_size is not None and micro_batch * size != batch_size:
        raise BatchSizeError(
            "The micro-batch size times the number of ranks must be the batch size of the "
            f"dataset. Received: micro_batch_size={micro_batch}, size={size} (product "
            f"{micro_batch * size}), batch size {batch_size}. Leave micro_batch_size out: every "
            "rank then takes its part of each batch, even if the parts differ by one sample."
        )
    return micro_batch * size
