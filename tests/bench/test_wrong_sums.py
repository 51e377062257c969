"""A library that does not form the right sum is not measured but named."""

import numpy as np
import pytest

from benchmarks.allreduce import values
from benchmarks.allreduce.libraries import LibrarySpec
from benchmarks.allreduce.library_ranks import LibraryRanks
from benchmarks.allreduce.rank import measure
from benchmarks.allreduce.variant import Library, Variant
from benchmarks.process_set import ProcessesFailed

SIZE = 4


def sums(num_elements):
    """What all ranks' values add up to, computed the slow way."""
    contributions = []
    for rank in range(SIZE):
        arrays = [np.empty(number, np.float32) for number in num_elements]
        values.fill(arrays, rank)
        contributions.append(arrays)
    return [np.sum(of_ranks, axis=0) for of_ranks in zip(*contributions, strict=True)]


def test_the_right_sums_are_accepted():
    values.check(sums([3, 20_000, 1]), SIZE)


@pytest.mark.parametrize(("array", "element"), [(0, 0), (0, 2), (1, 9_999), (1, 19_999), (2, 0)])
def test_one_wrong_element_is_found_and_named(array, element):
    results = sums([3, 20_000, 1])
    results[array][element] += 1
    with pytest.raises(AssertionError, match=f"1 of .* elements of array {array}.* {element}:"):
        values.check(results, SIZE)


def test_slices_that_changed_places_are_found():
    [result] = sums([20_000])
    result[:] = np.roll(result, 4096)
    with pytest.raises(AssertionError, match="wrong sum"):
        values.check([result], SIZE)


def test_a_rank_that_is_left_out_is_found():
    array = np.zeros(1000, np.float32)
    library = Library(
        rank=0,
        size=2,
        versions={},
        barrier=lambda: None,
        variants={"sums only its own": lambda _: Variant([array], lambda: None, lambda: [array])},
    )
    with pytest.raises(AssertionError, match="wrong sum"):
        measure(library, "sums only its own", "4000B", block=1, num_blocks=1)


def test_a_library_that_cannot_start_is_named_with_its_message(tmp_path):
    spec = LibrarySpec("Missing", "", "with_nothing")
    with pytest.raises(ProcessesFailed, match=r"(?s)Missing, 2 ranks: .*No module named"):
        LibraryRanks(spec, 2, tmp_path)
