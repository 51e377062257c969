"""Sizes and positions of micro-batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_data.elements import row_split
from tnt_data.errors import BatchSizeError

batch_sizes = st.integers(0, 200)
sizes = st.integers(1, 40)


@given(batch_sizes, sizes)
def test_positions_of_all_ranks_are_disjoint_and_cover_the_batch(
    batch_size: int, size: int
) -> None:
    positions = [p for r in range(size) for p in row_split.sample_positions(batch_size, r, size)]
    assert sorted(positions) == list(range(batch_size))


@given(batch_sizes, sizes)
def test_sizes_differ_by_at_most_one_and_low_ranks_have_the_larger(
    batch_size: int, size: int
) -> None:
    split = row_split.split_sizes(batch_size, size)
    assert sum(split) == batch_size
    assert max(split) - min(split) <= 1
    assert list(split) == sorted(split, reverse=True)


@given(batch_sizes, sizes)
def test_size_is_quotient_plus_one_for_ranks_below_the_remainder(
    batch_size: int, size: int
) -> None:
    for rank in range(size):
        expected = batch_size // size + (rank < batch_size % size)
        assert row_split.micro_batch_size(batch_size, rank, size) == expected


@given(st.integers(1, 200), sizes)
def test_every_rank_has_a_row_and_a_duplicate_is_the_first_sample(
    batch_size: int, size: int
) -> None:
    for rank in range(size):
        samples = row_split.sample_positions(batch_size, rank, size)
        rows = row_split.row_positions(batch_size, rank, size)
        assert list(rows) == (list(samples) or [0])


def test_empty_batch_has_no_row_to_duplicate() -> None:
    assert list(row_split.row_positions(0, rank=1, size=3)) == []


@given(batch_sizes, st.integers(1, 50), st.booleans())
def test_steps_count_full_batches_and_a_short_one_unless_dropped(
    num_samples: int, batch_size: int, drop: bool
) -> None:
    starts = range(0, num_samples, batch_size)
    expected = [s for s in starts if not drop or s + batch_size <= num_samples]
    assert row_split.num_steps(num_samples, batch_size, drop) == len(expected)


@pytest.mark.parametrize(("rank", "size"), [(-1, 2), (2, 2), (0, 0)])
def test_rank_outside_of_the_ranks_is_refused(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"size={size}"):
        row_split.micro_batch_size(8, rank, size)


def test_negative_batch_size_is_refused() -> None:
    with pytest.raises(BatchSizeError, match="batch_size=-1"):
        row_split.split_sizes(-1, 2)


def test_micro_batch_size_must_multiply_to_the_batch_size() -> None:
    assert row_split.check_micro_batch_size(4, 3, 12) == 12
    assert row_split.check_micro_batch_size(4, 3, None) == 12
    with pytest.raises(BatchSizeError, match=r"micro_batch_size=4, size=3 \(product 12\).* 13"):
        row_split.check_micro_batch_size(4, 3, 13)
    with pytest.raises(BatchSizeError, match="micro_batch_size=0"):
        row_split.check_micro_batch_size(0, 3, None)
