"""Tell which samples of a global batch belong to which rank: numbers only, no TensorFlow.

Rank `r` of `n` takes the rows `r, r + n, r + 2n, ...` of every global batch, which is
`batch[r::n]`. The sizes of two ranks differ by at most one and the low ranks have the larger ones.
A rank without samples still takes part in the step: it computes on one row, a duplicate of the
first, that counts for nothing.
"""

from __future__ import annotations

from tnt_data.errors import BatchSizeError


def check_rank(rank: int, size: int) -> None:
    """Check that `rank` is one of `size` ranks. Local.

    Raises:
        ValueError: If `size < 1` or `rank` is not in `[0, size)`.
    """
    if size < 1:
        raise ValueError(f"There must be at least one rank. Received: size={size}.")
    if not 0 <= rank < size:
        raise ValueError(f"The rank must lie in [0, size). Received: rank={rank}, size={size}.")


def micro_batch_size(batch_size: int, rank: int, size: int) -> int:
    """Return the number of samples that a rank takes of a global batch. Local.

    Args:
        batch_size: Samples in the global batch, also a short one; 0 or more.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks that share the batch.

    Returns:
        `len(range(rank, batch_size, size))`; 0 where there are fewer samples than ranks before it.

    Raises:
        ValueError: If `rank` is not in `[0, size)` or `batch_size` is negative.

    Example:
        >>> [micro_batch_size(14, rank, size=4) for rank in range(4)]
        [4, 4, 3, 3]
    """
    return len(sample_positions(batch_size, rank, size))


def sample_positions(batch_size: int, rank: int, size: int) -> range:
    """Return the positions, inside the global batch, of the samples that a rank takes. Local.

    Args:
        batch_size: Samples in the global batch, also a short one; 0 or more.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks that share the batch.

    Returns:
        `range(rank, batch_size, size)`. Over all ranks the ranges are disjoint and cover the batch.

    Raises:
        ValueError: If `rank` is not in `[0, size)` or `batch_size` is negative.
    """
    check_rank(rank, size)
    if batch_size < 0:
        raise BatchSizeError(f"A batch has 0 or more samples. Received: batch_size={batch_size}.")
    return range(rank, batch_size, size)


def row_positions(batch_size: int, rank: int, size: int) -> range:
    """Return the positions of the rows that a rank computes on. Local.

    Unlike `sample_positions` this includes the duplicate row of a rank without samples.

    Args:
        batch_size: Samples in the global batch, also a short one; 0 or more.
        rank: Rank of the caller, `0 <= rank < size`.
        size: Number of ranks that share the batch.

    Returns:
        `sample_positions(...)`, or `range(1)` if those are none and the batch has a first sample.

    Raises:
        ValueError: If `rank` is not in `[0, size)` or `batch_size` is negative.
    """
    return sample_positions(batch_size, rank, size) or range(min(batch_size, 1))


def split_sizes(batch_size: int, size: int) -> tuple[int, ...]:
    """Return the samples of a global batch per rank, in rank order. Local.

    Args:
        batch_size: Samples in the global batch; 0 or more.
        size: Number of ranks that share the batch.

    Returns:
        One number for each rank; their sum is `batch_size`.

    Raises:
        ValueError: If `size < 1` or `batch_size` is negative.

    Example:
        >>> split_sizes(2, size=4)
        (1, 1, 0, 0)
    """
    check_rank(0, size)
    return tuple(micro_batch_size(batch_size, rank, size) for rank in range(size))


def num_steps(num_samples: int, batch_size: int, drop_remainder: bool) -> int:
    """Return the steps of one pass over `num_samples` samples; the same on every rank. Local.

    Args:
        num_samples: Samples of the pass; 0 or more.
        batch_size: Samples in a full global batch; at least 1.
        drop_remainder: Whether a short last batch is left out.
    """
    return num_samples // batch_size if drop_remainder else -(-num_samples // batch_size)


def last_batch_size(num_samples: int, batch_size: int, drop_remainder: bool) -> int:
    """Return the samples in the last batch of a pass over `num_samples` samples. Local.

    Args:
        num_samples: Samples of the pass; 0 or more.
        batch_size: Samples in a full global batch; at least 1.
        drop_remainder: Whether a short last batch is left out.

    Returns:
        At most `batch_size`; 0 if the pass has no batches.
    """
    steps = num_steps(num_samples, batch_size, drop_remainder)
    return min(batch_size, num_samples - (steps - 1) * batch_size) if steps else 0


def check_micro_batch_size(micro_batch: int, size: int, batch_size: int | None) -> int:
    """Return the global batch size that a requested micro-batch size leads to. Local.

    Args:
        micro_batch: Requested samples per rank and step; at least 1.
        size: Number of ranks.
        batch_size: Global batch size of the dataset, None if the dataset is not batched.

    Returns:
        `micro_batch * size`.

    Raises:
        BatchSizeError: If `micro_batch < 1`, or the dataset is batched with another size.
    """
    if micro_batch < 1:
        raise BatchSizeError(
            f"The micro-batch size must be at least 1. Received: micro_batch_size={micro_batch}."
        )
    if batch_size is not None and micro_batch * size != batch_size:
        raise BatchSizeError(
            f"The micro-batch size times the number of ranks must be the batch size of the "
            f"dataset. Received: micro_batch_size={micro_batch}, size={size} (product "
            f"{micro_batch * size}), batch size {batch_size}. Leave micro_batch_size out: every "
            f"rank then takes its part of each batch, also where the parts differ by one sample."
        )
    return micro_batch * size
