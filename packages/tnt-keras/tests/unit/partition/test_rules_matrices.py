"""Operations on batches of matrices: rows lie along the batch, or all are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from rule_replicas import assert_rule
from rule_sweep import decision, raw, sweep

from tnt_keras.partition.value import PARTIAL, REPLICATED, Sharded

OF_ONE = """
Cholesky LogMatrixDeterminant Lu MatrixDeterminant MatrixInverse MatrixLogarithm
MatrixSquareRoot Qr"""
OF_TWO = "BandedTriangularSolve CholeskyGrad MatrixSolve MatrixTriangularSolve"
OTHERS = """
Cross Eig MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MatrixSolveLs SelfAdjointEigV2 Svd
TridiagonalMatMul TridiagonalSolve"""
TYPES = {*OF_ONE.split(), *OF_TWO.split(), *OTHERS.split()}
ROWS = 3


def definite(*batch: int) -> Any:
    """Symmetric positive matrices, all different."""
    random = np.random.default_rng(sum(batch))
    roots = random.uniform(0.1, 0.9, (*batch, ROWS, ROWS)).astype(np.float32)
    return roots @ np.swapaxes(roots, -1, -2) + 2 * np.eye(ROWS, dtype=np.float32)


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def assert_only_batches_are_cut(found: Any, batch: int) -> None:
    """All decisions of a sweep are along the first axes of the first input."""
    for placed, made in found:
        match placed[0]:
            case Sharded(axis):
                assert (made is not None) == (axis < batch), (placed, made)


@pytest.mark.parametrize("name", OF_ONE.split())
def test_each_matrix_has_a_result_of_its_own(name: str) -> None:
    make = raw(name)
    value = definite(2 * ROWS)
    if name == "MatrixLogarithm":
        value = value.astype(np.complex64)
    assert_only_batches_are_cut(sweep(make, [value], ROWS, 2, rtol=1e-4), batch=1)
    assert_rule(make, [value[0]], [Sharded(0)], ROWS, 2, is_ruled=False)


@pytest.mark.parametrize("name", OF_TWO.split())
def test_two_matrices_are_cut_along_their_batch(name: str) -> None:
    found = sweep(raw(name), [definite(ROWS), floats(ROWS, ROWS, ROWS)], ROWS, 2, rtol=1e-4)
    for placed, made in found:
        assert (made is not None) == (Sharded(0) in placed)


@pytest.mark.parametrize("name", ["MatrixTriangularSolve", "BandedTriangularSolve"])
@pytest.mark.parametrize("batches", [((), (ROWS,)), ((ROWS, 1), (ROWS,)), ((1,), (ROWS,))])
def test_batches_are_aligned_from_the_last_axis(name: str, batches: Any) -> None:
    matrix, right = definite(*batches[0]), floats(*batches[1], ROWS, 2)
    found = dict(sweep(raw(name), [matrix, right], ROWS, 2, rtol=1e-4))
    made = found[REPLICATED, Sharded(0)]
    assert made is not None
    rank = max(map(len, batches))
    assert made.outputs == (Sharded(rank - 1),)


def test_least_squares_are_solved_in_each_row() -> None:
    arrays = [floats(ROWS, 4, ROWS), floats(ROWS, 4, 2), np.float64(0.1)]
    found = sweep(raw("MatrixSolveLs"), arrays, ROWS, 2, replicated=[2], rtol=1e-4)
    assert all(made for placed, made in found if Sharded(0) in placed)


@pytest.mark.parametrize("name", ["SelfAdjointEigV2", "Eig", "Svd"])
def test_each_matrix_has_values_and_vectors_of_its_own(name: str) -> None:
    make = raw(name, **({"Tout": tf.complex64} if name == "Eig" else {}))
    assert_only_batches_are_cut(sweep(make, [definite(ROWS)], ROWS, 2, rtol=1e-4), batch=1)


def test_vectors_that_are_not_asked_for_have_no_rows() -> None:
    """TensorFlow leaves such an output without a value, and says that it has no elements."""
    matrix = [((3, 2, 2), Sharded(0))]
    for name in ("SelfAdjointEigV2", "Eig"):
        found = decision(name, matrix, [(3, 2), (0,)], num_rows=3, compute_v=False)
        assert found is not None
        assert found.outputs == (Sharded(0), REPLICATED)
    found = decision("Svd", matrix, [(3, 2), (0,), (0,)], num_rows=3, compute_uv=False)
    assert found is not None
    assert found.outputs == (Sharded(0), REPLICATED, REPLICATED)


def test_tridiagonal_matrices() -> None:
    batch, right = definite(ROWS), floats(ROWS, ROWS, ROWS)
    found = sweep(raw("TridiagonalSolve"), [batch, right], ROWS, 2, rtol=1e-4)
    diagonals = [floats(ROWS, 1, ROWS), floats(ROWS, 1, ROWS), floats(ROWS, 1, ROWS)]
    for rows in range(4):
        placements = [Sharded(0) if i == rows else REPLICATED for i in range(4)]
        made = assert_rule(raw("TridiagonalMatMul"), [*diagonals, right], placements, ROWS, 2)
        assert made is not None
        assert made.inputs == (Sharded(0),) * 4
    for placed, made in found:
        assert (made is not None) == (Sharded(0) in placed)


def test_cross_products_are_of_vectors() -> None:
    found = sweep(raw("Cross"), [floats(ROWS, 3), floats(ROWS, 3)], ROWS, 2)
    for placed, made in found:
        assert (made is not None) == (Sharded(0) in placed)


def test_bands_are_of_each_matrix() -> None:
    arrays = [definite(ROWS), np.int64(1), np.int64(0)]
    found = sweep(raw("MatrixBandPart"), arrays, ROWS, 2, replicated=[1, 2])
    assert_only_batches_are_cut(found, batch=1)


# One diagonal, and a range of them, which has an axis more.
DIAGONALS = [np.int32(0), np.asarray([1], np.int32), np.asarray([-1, 1], np.int32)]


@pytest.mark.parametrize("version", ["", "V2", "V3"])
@pytest.mark.parametrize("diagonals", DIAGONALS)
def test_diagonals_are_taken_from_each_matrix(version: str, diagonals: Any) -> None:
    operands = [diagonals, np.float32(0)] if version else []
    found = sweep(
        raw(f"MatrixDiagPart{version}"), [definite(ROWS, 2), *operands], ROWS, 2, replicated=[1, 2]
    )
    assert_only_batches_are_cut(found, batch=2)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
@pytest.mark.parametrize("diagonals", DIAGONALS)
def test_each_row_of_diagonals_makes_a_matrix(version: str, diagonals: Any) -> None:
    operands = [diagonals, np.int32(-1), np.int32(-1), np.float32(0)] if version else []
    is_range = version != "" and np.size(diagonals) == 2
    value = floats(ROWS, *([ROWS] if is_range else []), ROWS)
    found = sweep(raw(f"MatrixDiag{version}"), [value, *operands], ROWS, 2, replicated=range(1, 5))
    assert_only_batches_are_cut(found, batch=1)


@pytest.mark.parametrize("version", ["", "V2", "V3"])
@pytest.mark.parametrize("diagonals", DIAGONALS)
def test_diagonals_of_each_matrix_are_set(version: str, diagonals: Any) -> None:
    operands = [diagonals] if version else []
    is_range = version != "" and np.size(diagonals) == 2
    length = ROWS - 1 if version and np.size(diagonals) == 1 and np.ravel(diagonals)[0] else ROWS
    value = floats(ROWS, *([ROWS] if is_range else []), length)
    found = sweep(
        raw(f"MatrixSetDiag{version}"), [definite(ROWS), value, *operands], ROWS, 2, replicated=[2]
    )
    for placed, made in found:
        assert (made is not None) == (Sharded(0) in placed[:2])


def test_matrices_are_of_totals_that_are_formed() -> None:
    assert_rule(raw("MatrixInverse"), [definite()], [PARTIAL], ROWS, 2, is_ruled=False)


def test_sizes_of_matrices_may_be_unknown() -> None:
    found = decision("MatrixInverse", [((4, None, None), Sharded(0))], [(4, None, None)])
    assert found is not None
    assert found.outputs == (Sharded(0),)


@pytest.mark.parametrize("name", ["MatrixInverse", "MatrixDiagPart", "MatrixDiag"])
def test_the_number_of_axes_must_be_known(name: str) -> None:
    assert decision(name, [(None, Sharded(0))], [None]) is None
    assert decision(name, [((4, 2, 2), Sharded(0))], [None]) is None
