"""The first samples of a global batch come to all ranks, in the order of the serial batch."""

from __future__ import annotations

from typing import Any

import first_samples
import numpy as np
import pytest
from classifiers import samples
from first_samples import as_data, batch_of

SIZES_OF_BATCHES = (1, 2, 3, 4, 5, 7, 8, 20)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "kind", ["micro-batch", pytest.param("checked", marks=pytest.mark.thorough), "global"]
)
def test_samples_are_the_first_of_the_serial_batch(kind: str, size: int, pool_of: Any) -> None:
    of_ranks = pool_of(size).run(first_samples.of_global_batches, kind, SIZES_OF_BATCHES)
    for rank, of_batches in enumerate(of_ranks):
        for num_global, result in zip(SIZES_OF_BATCHES, of_batches, strict=True):
            num_rows = min(2 * size + 1, num_global)
            rows = list(range(rank, num_rows, size))
            assert result == (as_data(batch_of(range(num_rows))), rows, num_rows), num_global


@pytest.mark.parametrize(
    "counts_of_ranks",
    [
        [(1, 1), (1, 8), (8, 1), (0, 3), (3, 0), (6, 6)],
        pytest.param(
            [(1, 1, 1), (4, 1, 8), (0, 9, 0), (2, 0, 1), (7, 7, 7)], marks=pytest.mark.thorough
        ),
    ],
)
def test_own_samples_are_ordered_by_index_and_rank(counts_of_ranks: Any, pool_of: Any) -> None:
    size = len(counts_of_ranks[0])
    of_ranks = pool_of(size).run(first_samples.of_own_batches, counts_of_ranks)
    for rank, of_batches in enumerate(of_ranks):
        for counts, result in zip(counts_of_ranks, of_batches, strict=True):
            order = sorted((i, r) for r, count in enumerate(counts) for i in range(count))
            order = order[: 2 * size + 1]
            expected = as_data(batch_of(10 * r + i for i, r in order))
            rows = [position for position, (_, r) in enumerate(order) if r == rank]
            assert result == (expected, rows, len(order)), counts


def test_no_samples_at_all_give_none(pool_of: Any) -> None:
    assert pool_of(2).run(first_samples.of_own_batches, [(0, 0)]) == [[None], [None]]


def test_shorter_rows_are_padded_with_zeros(pool_of: Any) -> None:
    numbers = [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 0], [1, 1, 0]]
    words = [[b"word" if number else b"" for number in row] for row in numbers]
    expected = [("dense", "int32", numbers), ("dense", "string", words)]
    for rank, result in enumerate(pool_of(3).run(first_samples.of_padded_batches)):
        assert result == (expected, [[0, 3], [1, 4], [2]][rank], 5)


def test_batches_of_a_distributed_dataset_are_gathered(pool_of: Any) -> None:
    for rank, result in enumerate(pool_of(2).run(first_samples.of_a_dataset)):
        rows = [[0, 2], [1]][rank]
        for first, of_batch in zip((0, 4), result, strict=True):
            numbers = [first, first + 1, first + 2]
            text = [str(number).encode() for number in numbers]
            data = [("dense", "int64", numbers), ("dense", "string", text)]
            assert of_batch == (data, rows, 3)


def test_a_rank_sends_its_first_rows_only(pool_of: Any) -> None:
    sent = pool_of(2).run(first_samples.bytes_sent)
    for rank, num_rows in enumerate((3, 2)):
        assert max(sent[rank]) in range(num_rows * 4096, num_rows * 4096 + 1000)


def test_a_rank_without_data_keeps_no_other_waiting(pool_of: Any) -> None:
    assert pool_of(2).run(first_samples.where_a_rank_differs, "no data") == [None, None]


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("other size", ["Ranks have read different data in one step", "[1]"]),
        ("other fingerprint", ["Ranks have read different data in one step", "[1]"]),
        ("other dtype", ["structure of the samples", "float32", "float64", "on rank 1"]),
        ("other structure", ["structure of the samples", "None", "on rank 1"]),
    ],
)
def test_parts_that_do_not_belong_together_are_named(
    how: str, words: list[str], pool_of: Any
) -> None:
    for text in pool_of(2).run(first_samples.where_a_rank_differs, how):
        assert all(word in text for word in words), text


@pytest.mark.parametrize(
    ("kind", "starts"),
    [
        pytest.param("arrays", (0, 0), marks=pytest.mark.thorough),
        ("generator", (0, 13)),
        pytest.param("own", (0, 0), marks=pytest.mark.thorough),
    ],
)
def test_samples_gathered_during_training_leave_it_as_it_is(
    kind: str, starts: tuple[int, ...], pool_of: Any
) -> None:
    x, y = samples(22)
    expected = pool_of(2).run(first_samples.during_training, kind, False)
    of_ranks = pool_of(2).run(first_samples.during_training, kind, True)
    for rank, ((gathered, weights), (_, plain)) in enumerate(zip(of_ranks, expected, strict=True)):
        for (data, rows, num_rows), start in zip(gathered, starts, strict=True):
            assert data == as_data((x[start : start + 5], y[start : start + 5]))
            assert (rows, num_rows) == ([[0, 2, 4], [1, 3]][rank], 5)
        for result, value in zip(weights, plain, strict=True):
            np.testing.assert_array_equal(result, value, strict=True)
