"""Sizes and positions of micro-batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnt_data.elements.row_split import (
    RowSplit,
    check_micro_batch_size,
    micro_batch_size,
    num_steps,
    split_of_dataset,
)
from tnt_data.errors import BatchSizeError

batch_sizes = st.integers(0, 200)
sizes = st.integers(1, 40)
lanes_of_ranks = st.integers(1, 5)


def splits(size: int, lanes: int) -> list[RowSplit]:
    return [RowSplit(rank, size, lanes) for rank in range(size)]


@given(batch_sizes, sizes, lanes_of_ranks)
def test_positions_of_all_ranks_are_those_of_all_lanes_in_turn(
    batch_size: int, size: int, lanes_of_rank: int
) -> None:
    lanes = size * lanes_of_rank
    positions = [p for split in splits(size, lanes) for p in split.positions(batch_size)]
    assert positions == [p for lane in range(lanes) for p in range(batch_size)[lane::lanes]]
    assert sorted(positions) == list(range(batch_size))


@given(batch_sizes, sizes)
def test_sizes_differ_by_at_most_one_and_low_ranks_have_the_larger(
    batch_size: int, size: int
) -> None:
    counts = [micro_batch_size(batch_size, rank, size) for rank in range(size)]
    assert sum(counts) == batch_size
    assert max(counts) - min(counts) <= 1
    assert counts == sorted(counts, reverse=True)


@given(batch_sizes, sizes)
def test_size_is_quotient_plus_one_for_ranks_below_the_remainder(
    batch_size: int, size: int
) -> None:
    for rank in range(size):
        expected = batch_size // size + (rank < batch_size % size)
        assert micro_batch_size(batch_size, rank, size) == expected


@given(batch_sizes, sizes, lanes_of_ranks)
def test_size_is_the_sum_over_the_lanes_of_a_rank(
    batch_size: int, size: int, lanes_of_rank: int
) -> None:
    lanes = size * lanes_of_rank
    of_lanes = [micro_batch_size(batch_size, lane, lanes) for lane in range(lanes)]
    for split in splits(size, lanes):
        expected = sum(of_lanes[split.rank * lanes_of_rank :][:lanes_of_rank])
        assert split.num_rows(batch_size) == len(split.positions(batch_size)) == expected
        assert micro_batch_size(batch_size, split.rank, size, lanes=lanes) == expected


@given(st.integers(1, 200), sizes, lanes_of_ranks)
def test_every_rank_has_a_row_and_a_duplicate_is_the_first_sample(
    batch_size: int, size: int, lanes_of_rank: int
) -> None:
    for split in splits(size, size * lanes_of_rank):
        assert list(split.rows(batch_size)) == (list(split.positions(batch_size)) or [0])


def test_empty_batch_has_no_row_to_duplicate() -> None:
    assert list(RowSplit(rank=1, size=3, lanes=3).rows(0)) == []


@given(sizes, lanes_of_ranks)
def test_one_rank_has_whole_batches_in_their_order_whatever_the_lanes(
    batch_size: int, lanes: int
) -> None:
    assert split_of_dataset(0, 1, lanes).positions(batch_size) == range(batch_size)


@given(batch_sizes, st.integers(1, 50), st.booleans())
def test_steps_count_full_batches_and_a_short_one_unless_dropped(
    num_samples: int, batch_size: int, drop: bool
) -> None:
    starts = range(0, num_samples, batch_size)
    expected = [s for s in starts if not drop or s + batch_size <= num_samples]
    assert num_steps(num_samples, batch_size, drop) == len(expected)


@pytest.mark.parametrize(("rank", "size"), [(-1, 2), (2, 2), (0, 0)])
def test_rank_outside_of_the_ranks_is_refused(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"size={size}"):
        micro_batch_size(8, rank, size)


@pytest.mark.parametrize("lanes", [0, 3])
def test_lanes_that_ranks_cannot_share_evenly_are_refused(lanes: int) -> None:
    with pytest.raises(ValueError, match=f"lanes={lanes}, size=2"):
        RowSplit(rank=0, size=2, lanes=lanes)


def test_negative_batch_size_is_refused() -> None:
    with pytest.raises(BatchSizeError, match="batch_size=-1"):
        micro_batch_size(-1, 0, 2)


def test_micro_batch_size_must_multiply_to_the_batch_size() -> None:
    assert check_micro_batch_size(4, 3, 12) == 12
    assert check_micro_batch_size(4, 3, None) == 12
    with pytest.raises(BatchSizeError, match=r"micro_batch_size=4, size=3 \(product 12\).* 13"):
        check_micro_batch_size(4, 3, 13)
    with pytest.raises(BatchSizeError, match="micro_batch_size=0"):
        check_micro_batch_size(0, 3, None)
