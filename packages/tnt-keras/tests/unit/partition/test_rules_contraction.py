"""Products of matrices and Einstein sums: rows that are summed over give totals, others rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_replicas import assert_rule
from rule_sweep import SIZES, decision, placements_of, raw, sweep

from tnt_keras.partition.value import PARTIAL, REPLICATED, Placement, Shape, Sharded

EXAMPLES = settings().max_examples // 8
BATCHED = ["BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"]
TYPES = {"Einsum", "MatMul", "SparseMatMul", *BATCHED}


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def product(name: str, **attributes: Any) -> Any:
    return raw(name, **({"Tout": tf.float32} if name == "BatchMatMulV3" else {}), **attributes)


@pytest.mark.parametrize("name", ["MatMul", "SparseMatMul"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("other", [3, 6, 2])
def test_matrices_of_any_sizes_and_sides(name: str, first: bool, second: bool, other: int) -> None:
    """The sizes of all axes are those of the rows, or multiples of it, or neither."""
    left, right = (3, other), (other, 3)
    arrays = [
        floats(*reversed(left) if first else left),
        floats(*reversed(right) if second else right),
    ]
    sweep(product(name, transpose_a=first, transpose_b=second), arrays, 3, 2)


def test_a_layer_of_units_and_its_derivatives() -> None:
    """The three products of a dense layer: none gathers, and that of the weights is a total."""
    rows, weights, units = floats(5, 3), floats(3, 4), floats(5, 4)
    forward = assert_rule(product("MatMul"), [rows, weights], [Sharded(0), REPLICATED], 5, 3)
    assert forward is not None
    assert forward.outputs == (Sharded(0),)
    to_inputs = assert_rule(
        product("MatMul", transpose_b=True), [units, weights], [Sharded(0), REPLICATED], 5, 3
    )
    assert to_inputs is not None
    assert to_inputs.outputs == (Sharded(0),)
    to_weights = assert_rule(
        product("MatMul", transpose_a=True), [rows, units], [Sharded(0), Sharded(0)], 5, 3
    )
    assert to_weights is not None
    assert (to_weights.inputs, to_weights.outputs) == ((Sharded(0), Sharded(0)), (PARTIAL,))


def test_similarities_of_all_pairs_gather_one_side() -> None:
    """And their derivative gathers the rows again, never the pairs."""
    rows, pairs = floats(6, 2), floats(6, 6)
    forward = assert_rule(
        product("MatMul", transpose_b=True), [rows, rows], [Sharded(0), Sharded(0)], 6, 4
    )
    assert forward is not None
    assert (forward.inputs, forward.outputs) == ((Sharded(0), REPLICATED), (Sharded(0),))
    backward = assert_rule(product("MatMul"), [pairs, rows], [Sharded(0), Sharded(0)], 6, 4)
    assert backward is not None
    assert (backward.inputs, backward.outputs) == ((Sharded(0), REPLICATED), (Sharded(0),))


def test_blocks_of_rows_are_summed_only_with_their_like() -> None:
    """Two joined views: rows of one layout on one side, of another on the other."""
    left, right = floats(3, 6), floats(6, 3)
    found = assert_rule(product("MatMul"), [left, right], [Sharded(1, 2), Sharded(0, 1, 2)], 3, 2)
    assert found is not None
    assert found.inputs[0] == Sharded(1, *((2, 1) if found.inputs[1] == Sharded(0, 2) else (1, 2)))


@pytest.mark.parametrize("name", BATCHED)
@pytest.mark.parametrize("first", [True, False])
def test_batches_of_matrices(name: str, first: bool) -> None:
    found = sweep(product(name, adj_x=first), [floats(3, 3, 3), floats(3, 3, 3)], 3, 2)
    assert all(made for placed, made in found if Sharded(0) in placed)


@pytest.mark.parametrize("name", BATCHED[1:])
@pytest.mark.parametrize(
    "shapes", [((3, 2, 3), (3, 3)), ((3, 1, 2, 3), (3, 3, 2)), ((1, 3, 3), (3, 3, 2))]
)
def test_batches_are_broadcast(name: str, shapes: Any) -> None:
    sweep(product(name), [floats(*shape) for shape in shapes], 3, 2)


def test_attention_stays_in_its_row() -> None:
    """[rows, heads, time, size] against the same."""
    queries, keys = floats(5, 2, 4, 3), floats(5, 2, 4, 3)
    found = assert_rule(
        product("BatchMatMulV2", adj_y=True), [queries, keys], [Sharded(0)] * 2, 5, 3
    )
    assert found is not None
    assert (found.inputs, found.outputs) == ((Sharded(0), Sharded(0)), (Sharded(0),))


EQUATIONS = [
    "ab,bc->ac",
    "ab,cb->ac",
    "ab,ab->ab",
    "ab,ab->a",
    "ab,ab->",
    "a,b->ab",
    "ab,b->a",
    "ab->ba",
    "abc,cde->abde",
    "aecd,abcd->acbe",
    "abc->c",
    "...a,ab->...b",
    "a...,...b->...ab",
    "...ab,...bc->...ac",
    "aa,ab->b",
    "aa->a",
    "a->aa",
    "ab->aab",
    "aab,b->ab",
    "ab,ba->a",
]


@settings(max_examples=EXAMPLES)
@given(data=st.data(), size=st.sampled_from(SIZES))
@pytest.mark.parametrize("equation", EQUATIONS)
def test_any_equation(equation: str, data: st.DataObject, size: tuple[int, int]) -> None:
    num_rows, replicas = size
    sizes = st.sampled_from([1, 2, num_rows, 2 * num_rows])
    of_label: dict[str, int] = {}
    arrays = []
    for term in equation.split("->")[0].split(","):
        shape = [of_label.setdefault(label, data.draw(sizes)) for label in term if label != "."]
        if "..." in term:
            place = term.index("...")
            of_ellipsis = of_label.setdefault("...", data.draw(sizes))
            shape[place:place] = [data.draw(st.sampled_from([1, of_ellipsis]))]
        arrays.append(floats(*shape))
    placements = [data.draw(st.sampled_from(placements_of(a, num_rows))) for a in arrays]
    assert_rule(einsum(equation), arrays, placements, num_rows, replicas, is_ruled=None, rtol=1e-4)


def einsum(equation: str) -> Any:
    return lambda *values: tf.raw_ops.Einsum(inputs=list(values), equation=equation)


@pytest.mark.parametrize("equation", EQUATIONS)
def test_any_placement_where_all_sizes_are_the_number_of_rows(equation: str) -> None:
    terms = equation.split("->")[0].split(",")
    sweep(einsum(equation), [floats(*[2] * len(term.replace("...", "."))) for term in terms], 2, 2)


def test_an_axis_of_the_ellipsis_that_is_spread_is_not_cut() -> None:
    arrays = [floats(5, 3), floats(1, 3)]
    found = assert_rule(
        einsum("...i,...i->...i"), arrays, [Sharded(0), REPLICATED], 5, 3, operation_type="Einsum"
    )
    assert found is not None
    assert (found.inputs, found.outputs) == ((Sharded(0), REPLICATED), (Sharded(0),))


@pytest.mark.parametrize("equation", ["i->ii", "ii->i", "ii->"])
def test_diagonals_of_rows_are_not_cut(equation: str) -> None:
    value = floats(*[4] * len(equation.split("->")[0]))
    assert_rule(einsum(equation), [value], [Sharded(0)], 4, 2, is_ruled=False)


def test_diagonals_beside_rows_are_cut() -> None:
    found = assert_rule(einsum("bii->bi"), [floats(4, 4, 4)], [Sharded(0)], 4, 2)
    assert found is not None
    assert found.outputs == (Sharded(0),)


@pytest.mark.parametrize(
    ("equation", "first", "second", "output"),
    [
        ("abc,cd->abd", (4, None, 2), (2, 3), (4, None, 3)),
        ("aecd,abcd->acbe", (4, None, 2, 3), (4, None, 2, 3), (4, 2, None, None)),
        ("...c,cd->...d", (4, None, 2), (2, 3), (4, None, 3)),
    ],
)
def test_other_axes_may_be_of_unknown_size(
    equation: str, first: Any, second: Any, output: Any
) -> None:
    placed = Sharded(0) if second[0] == 4 else REPLICATED
    found = decision(
        "Einsum", [(first, Sharded(0)), (second, placed)], [output], equation=equation.encode()
    )
    assert found is not None
    assert (found.inputs, found.outputs) == ((Sharded(0), placed), (Sharded(0),))


def test_derivatives_over_an_unknown_size_are_totals() -> None:
    inputs = [((4, None, 2), Sharded(0)), ((4, None, 3), Sharded(0))]
    found = decision("Einsum", inputs, [(2, 3)], equation=b"abc,abd->cd")
    assert found is not None
    assert found.outputs == (PARTIAL,)


def test_rows_merged_with_an_unknown_size_are_multiplied_and_summed() -> None:
    """[rows * time, size], as a dense layer has them."""
    merged = Sharded(0, 1, None)
    forward = decision(
        "MatMul",
        [((None, 2), merged), ((2, 3), REPLICATED)],
        [(None, 3)],
        transpose_a=False,
        transpose_b=False,
    )
    assert forward is not None
    assert forward.outputs == (merged,)
    backward = decision(
        "MatMul",
        [((None, 2), merged), ((None, 3), merged)],
        [(2, 3)],
        transpose_a=True,
        transpose_b=False,
    )
    assert backward is not None
    assert backward.outputs == (PARTIAL,)


def test_the_number_of_axes_must_be_known() -> None:
    inputs: list[tuple[Shape, Placement]] = [(None, Sharded(0)), ((2, 3), REPLICATED)]
    assert decision("BatchMatMulV2", inputs, [None], adj_x=False, adj_y=False) is None
    assert decision("Einsum", inputs, [None], equation=b"...a,ab->...b") is None


def test_products_are_of_totals_that_are_formed() -> None:
    arrays = [floats(3, 3), floats(3, 3)]
    assert_rule(product("MatMul"), arrays, [PARTIAL, REPLICATED], 3, 2, is_ruled=False)
