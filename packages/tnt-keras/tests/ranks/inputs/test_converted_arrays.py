"""What Keras converts arrives at a step as in serial Keras, and counts as there."""

from __future__ import annotations

from typing import Any

import converted_arrays
import pytest
from cases import cases
from serial_results import assert_close, assert_serial

SHORT = ["DataFrames of integers and others"]
"""Arrays of the short run: the others differ from these in a dtype or their class alone."""

of_arrays = cases(
    "kinds",
    [pytest.param(SHORT, id="some")],
    thorough=[pytest.param(list(converted_arrays.ARRAYS), id="all")],
)


@of_arrays
@cases("size", [2], thorough=[1])
def test_arrays_are_converted_as_in_keras(kinds: list[str], size: int, pool_of: Any) -> None:
    [expected] = pool_of(1).run(converted_arrays.train_on_arrays, False, kinds)
    if "Series" in kinds:
        assert expected["Series"]["received"] == ["float32 (1,)"] * 3
    for of_kinds in pool_of(size).run(converted_arrays.train_on_arrays, True, kinds):
        for kind, results in of_kinds.items():
            assert results.pop("received") == expected[kind]["received"], kind
            for name, value in results.items():
                assert_close(value, expected[kind][name], 1e-4, f"{kind}: {name}")


@cases("kind", ["entries"], thorough=["matrix", "tensor"])
@cases("size", [2], thorough=[1])
def test_sparse_arrays_are_those_of_keras(size: int, kind: str, pool_of: Any) -> None:
    assert_serial(converted_arrays.train_on_sparse, pool_of, kind, size=size)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1, 2])  # arrays of them are batches, too
def test_sparse_batches_are_those_of_keras(size: int, pool_of: Any) -> None:
    assert_serial(converted_arrays.sparse_batches, pool_of, size=size)


@cases(("size", "dropout"), [(2, 0.0)], thorough=[(1, 0.5)])
def test_rows_are_mixed_inside_of_batches(size: int, dropout: float, pool_of: Any) -> None:
    [expected] = pool_of(1).run(converted_arrays.mixed_in_batches, False, dropout)
    for found in pool_of(size).run(converted_arrays.mixed_in_batches, True, dropout):
        for name, value in found.items():
            assert_close(value, expected[name], 1e-5 * (size - 1), name)


@cases(
    ("size", "kinds"),
    [(2, ["one-hot in arrays", "negative in a dataset"])],
    thorough=[(size, list(converted_arrays.CLASS_WEIGHTS)) for size in (1, 2)],
)
def test_class_weights_count_as_in_keras(size: int, kinds: list[str], pool_of: Any) -> None:
    [expected] = pool_of(1).run(converted_arrays.train_with_class_weights, False, kinds)
    for of_kinds in pool_of(size).run(converted_arrays.train_with_class_weights, True, kinds):
        for kind, results in of_kinds.items():
            if kind in ("too large in a dataset", "negative in a dataset"):
                assert isinstance(expected[kind], str)
                assert results == (expected[kind] if size == 1 else "ValueError"), kind
            else:
                assert_close(results, expected[kind], name=kind)


def test_batches_of_arrays_have_by_default_the_size_of_keras(pool_of: Any) -> None:
    assert_serial(converted_arrays.default_batch_sizes, pool_of)


@cases("as_column", [True], thorough=[False])
def test_one_sample_weight_counts_for_all_targets(as_column: bool, pool_of: Any) -> None:
    assert_serial(converted_arrays.one_weight_for_several_targets, pool_of, as_column)


@cases("kind", ["shared"], thorough=["own", "eager", "micro-batches"])
def test_label_without_weight_on_one_rank_is_an_error_on_all(kind: str, pool_of: Any) -> None:
    own, other = pool_of(2).run(converted_arrays.labels_without_weight, kind)
    assert own == other
    error, text, _ = own
    assert error == "ValueError"
    assert "Ranks with such labels: 1 The first of each: 7" in text
    assert "map the labels" in text


def test_class_weights_that_cannot_be_applied_are_refused(pool_of: Any) -> None:
    for errors in pool_of(2).run(converted_arrays.class_weight_errors, True):
        together, several, of_one_sample = errors
        assert "cannot be used together" in together
        assert "single output" in several
        assert "one class for each sample" in of_one_sample
