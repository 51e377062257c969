"""What would differ from rank to rank is read by one of them, and training is the serial one."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import read_by_master
from cases import cases
from serial_results import assert_close, assert_serial

from tnt_keras.keras_hooks import private

IN_SHORT = (
    *("generator without end", "generator with an empty batch", "PyDataset", "numpy_function"),
    *("MapDataset", "DataLoader of torch", "validation by a generator"),
)
"""The others, whose neighbours these are, belong to the long tail."""


def is_known(library: str | None) -> bool:
    """Whether it is installed, and this Keras takes its data."""
    if library == "grain" and "GrainDatasetAdapter" not in private.kinds_of_input_in_keras():
        return False
    return library is None or importlib.util.find_spec(library) is not None


@cases(
    "kind", [kind for kind in read_by_master.FITS if kind in IN_SHORT], thorough=read_by_master.FITS
)
def test_training_on_what_draws_without_a_seed_is_that_of_serial_keras(
    kind: str, pool_of: Any
) -> None:
    library = read_by_master.LIBRARIES.get(kind)
    if not is_known(library):
        pytest.skip(f"{library} is not installed, or not known to this Keras")
    assert_serial(read_by_master.train, pool_of, kind)


def test_what_a_script_draws_after_a_call_is_what_it_draws_serially(pool_of: Any) -> None:
    assert_serial(read_by_master.drawn_after_calls, pool_of)


def test_what_a_script_draws_after_an_error_of_its_data_is_what_it_draws_serially(
    pool_of: Any,
) -> None:
    assert_serial(read_by_master.drawn_after_an_error, pool_of)


def test_a_generator_that_rank_0_has_read_once_it_goes_on_reading(pool_of: Any) -> None:
    first, second = pool_of(2).run(read_by_master.evaluated_where_rank_0_has_read)
    assert first == second
    assert first[0] != first[1]


def test_structures_of_dense_ragged_and_sparse_rows_come_as_they_are(pool_of: Any) -> None:
    assert_serial(read_by_master.noise_of_structures, pool_of)


@pytest.mark.parametrize(
    ("function", "arguments"),
    [(read_by_master.with_workers, [3]), (read_by_master.with_a_generator_of_numpy, [])],
    ids=["workers", "generator of NumPy"],
)
def test_ranks_get_what_rank_0_has_made(function: Any, arguments: list[int], pool_of: Any) -> None:
    of_ranks = pool_of(2).run(function, *arguments)
    expected = of_ranks[0][1]
    for weights, _ in of_ranks:
        assert_close(weights, expected, 1e-5, "weights")


def test_a_loop_of_ones_own_gets_rows_of_one_reading(pool_of: Any) -> None:
    [serial] = pool_of(1).run(read_by_master.sums_of_own_loop)
    of_ranks = pool_of(3).run(read_by_master.sums_of_own_loop)
    # The last batch has two samples: the third rank has a duplicate of the first.
    np.testing.assert_allclose(np.sum(of_ranks, 0)[:, :3], np.array(serial)[:, :3], rtol=1e-4)
    np.testing.assert_allclose(np.sum(of_ranks[:2], 0)[:, 3], np.array(serial)[:, 3], rtol=1e-4)


@cases(
    ("case", "words", "steps"),
    [
        ("damaged", "batch 3 is damaged", 3),
        ("other rows", "differ in their number of rows", 3),
        ("early", "", 7),
        ("stopped", "", 2),
    ],
    thorough=[
        ("damaged by a worker", "batch 3 is damaged", 3),
        ("not there", "at least one batch", 0),
    ],
)
def test_however_reading_ends_it_does_so_on_all_ranks_and_they_go_on(
    case: str, words: str, steps: int, pool_of: Any
) -> None:
    results = pool_of(2).run(read_by_master.end_of, case)
    for error, steps_run, losses in results:
        assert words in error
        assert bool(error) == bool(words)
        assert steps_run == steps
        assert losses == results[0][2]
