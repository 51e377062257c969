"""Rules of operations that give the same elements another shape."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from row_layouts import Layout, asked, data, integers, layouts, numbers
from rule_replicas import assert_rule

from tnt_keras.partition.value import PARTIAL, REPLICATED, ListOf, Partial, Shape, Sharded, Value

raw = tf.raw_ops


@st.composite
def reshapes(draw: st.DrawFn) -> tuple[Layout, list[int]]:
    """An array with rows, and another shape of its elements: axes are merged, split and mixed."""
    layout = draw(layouts())
    factors = [f for size in layout.shape for f in _prime_factors(size)]
    if draw(st.booleans()):
        factors = draw(st.permutations(factors))
    cuts = sorted(draw(st.lists(st.integers(0, len(factors)), max_size=3)))
    ends = [*cuts, len(factors)]
    return layout, [math.prod(factors[a:b]) for a, b in zip([0, *cuts], ends, strict=True)]


def _prime_factors(size: int) -> list[int]:
    for factor in range(2, size + 1):
        if size % factor == 0:
            return [factor, *_prime_factors(size // factor)]
    return []


def reshape(value: Any, shape: Any) -> Any:
    return raw.Reshape(tensor=value, shape=shape)


@given(reshapes(), st.booleans())
def test_a_reshape_in_replicas_is_the_reshape(
    case: tuple[Layout, list[int]], is_said: bool
) -> None:
    layout, shape = case
    if not is_said:
        shape = [*shape[:-1], -1]
    assert_rule(
        reshape,
        [layout.array(), np.array(shape, np.int32)],
        [layout.rows, REPLICATED],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )


@given(reshapes(), st.data())
def test_what_is_decided_without_knowing_sizes_is_what_is_decided_with_them(
    case: tuple[Layout, list[int]], unknown: st.DataObject
) -> None:
    layout, shape = case
    known = decided(layout.shape, layout.rows, shape, shape, layout.num_rows)
    before = masked(layout.shape, unknown)
    size = before[layout.rows.axis]
    rows = Sharded(layout.rows.axis, layout.rows.outer, layout.rows.inner if size else None)
    after = masked(shape, unknown)
    found = decided(before, rows, after, after, layout.num_rows)
    if found is not None and layout.num_rows > 1:
        assert known is not None
        assert (found.axis, found.outer) == (known.axis, known.outer)
        assert found.inner in (known.inner, None)


def masked(shape: Any, unknown: st.DataObject) -> tuple[int | None, ...]:
    is_known = unknown.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    return tuple(size if k else None for size, k in zip(shape, is_known, strict=True))


def decided(shape: Shape, rows: Sharded, said: Any, result: Shape, num_rows: int) -> Sharded | None:
    """Where a reshape puts rows."""
    decision = asked("Reshape", [data(shape, rows), integers(*said)], [tuple(result)], num_rows)
    if decision is None:
        return None
    [placed] = decision.outputs
    assert isinstance(placed, Sharded)
    assert decision.counts_rows[1] == tuple(axis == placed.axis for axis in range(len(result)))
    return placed


# N rows, T steps of a sequence of unknown length, d features, h heads.
N, D, H = 6, 8, 2


@pytest.mark.parametrize(
    ("shape", "rows", "said", "expected"),
    [
        ((N, None, D), Sharded(0), (N, None, H, 4), Sharded(0)),
        ((N, None, D), Sharded(0), (N, -1, H, 4), Sharded(0)),
        ((N, None, D), Sharded(0), (None, D), Sharded(0, 1, None)),
        ((N, None, D), Sharded(0), (-1, D), Sharded(0, 1, None)),
        ((N, None, D), Sharded(0), (-1, D // 2), Sharded(0, 1, None)),
        ((None, D), Sharded(0, 1, None), (N, None, D), Sharded(0)),
        ((None, D), Sharded(0, 1, None), (N, None, H, 4), Sharded(0)),
        ((N, None, H, 4), Sharded(0), (N, None, D), Sharded(0)),
        ((N, None, None, D), Sharded(0), (-1, D), Sharded(0, 1, None)),
        ((N, H, None, 4), Sharded(0), (N * H, None, 4), Sharded(0, 1, H)),
        ((N * H, None, 4), Sharded(0, 1, H), (N, H, None, 4), Sharded(0)),
        ((None, N, D), Sharded(1), (None, N, H, 4), Sharded(1)),
        ((None, N, D), Sharded(1), (-1, N * D), Sharded(1, 1, D)),
        ((N * H, None), Sharded(0, 1, H), (-1, H), Sharded(0, 1, None)),
        ((2 * N, None, D), Sharded(0, 2), (2, N, None, D), Sharded(1)),
        ((2 * N, None, D), Sharded(0, 2), (None, D), Sharded(0, 2, None)),
    ],
)
def test_a_reshape_keeps_rows_of_sequences_of_unknown_length(
    shape: Shape, rows: Sharded, said: Any, expected: Sharded
) -> None:
    result = tuple(None if s == -1 else s for s in said)
    assert decided(shape, rows, said, result, N) == expected


@pytest.mark.parametrize(
    ("shape", "rows", "said"),
    [
        ((N, None, 3), Sharded(0), (-1, 2)),  # T = 1: the first of these has elements of two rows
        ((N, None, 3), Sharded(0), (None, None, 3)),  # maybe N / 2 in front
        ((None, D), Sharded(0, 1, None), (-1, 2 * D)),
        ((None, N, None), Sharded(1), (None, N, None)),  # maybe (T1 / 2, N, 2 * T2)
        ((None, N, D), Sharded(1), (None, D)),  # as many blocks of N as there are steps
    ],
)
def test_a_reshape_that_could_mix_rows_for_some_length_is_gathered(
    shape: Shape, rows: Sharded, said: Any
) -> None:
    assert decided(shape, rows, said, tuple(None if s == -1 else s for s in said), N) is None


def test_the_axis_that_a_reshape_says_as_minus_one_stays_so() -> None:
    value = np.ones((N, 3, D), np.float32)
    decision = assert_rule(reshape, [value, np.array([-1, D])], [Sharded(0), REPLICATED], N, 4)
    assert decision is not None
    assert decision.outputs == (Sharded(0, 1, 3),)


def test_sizes_of_zero_are_gathered() -> None:
    value = np.ones((N, 0), np.float32)
    shape = np.array([0, N])
    assert_rule(reshape, [value, shape], [Sharded(0), REPLICATED], N, 2, is_ruled=False)


@given(layouts(), st.data())
def test_an_axis_of_size_one_comes_and_goes_in_replicas(
    layout: Layout, choice: st.DataObject
) -> None:
    rank = len(layout.shape)
    axis = choice.draw(st.integers(-rank - 1, rank))
    decision = assert_rule(
        lambda x, a: raw.ExpandDims(input=x, axis=a),
        [layout.array(), np.array(axis)],
        [layout.rows, REPLICATED],
        layout.num_rows,
        layout.replicas,
    )
    assert decision is not None
    expanded = np.expand_dims(layout.array(), axis)
    for axes in ([axis], []):
        assert_rule(
            lambda x, axes=axes: raw.Squeeze(input=x, axis=axes),
            [expanded],
            decision.outputs,
            layout.num_rows,
            layout.replicas,
            is_ruled=None if not axes and 1 in layout.shape else True,
        )


def test_a_replica_of_one_row_keeps_it_where_axes_of_size_one_are_squeezed() -> None:
    value = numbers((3, 1, 4))
    decision = assert_rule(lambda x: raw.Squeeze(input=x), [value], [Sharded(0)], 3, 3)
    assert decision is not None
    assert decision.attributes == {"squeeze_dims": [1]}
    assert_rule(
        lambda x: raw.Squeeze(input=x), [numbers((3, 4))], [Sharded(0)], 3, 3, is_ruled=False
    )


def test_which_axes_of_unknown_sizes_are_squeezed_must_be_said() -> None:
    value = data((N, None, 1), Sharded(0))
    assert asked("Squeeze", [value], [(N, None)], N, squeeze_dims=[]) is None
    decision = asked("Squeeze", [value], [(N, None)], N, squeeze_dims=[-1])
    assert decision is not None
    assert decision.outputs == (Sharded(0),)


@pytest.mark.parametrize("make", [raw.Transpose, raw.ConjugateTranspose])
@given(layouts(), st.data())
def test_axes_change_places_in_replicas(make: Any, layout: Layout, choice: st.DataObject) -> None:
    order = choice.draw(st.permutations(range(len(layout.shape))))
    for perm in (order, [p - len(order) for p in order]):
        assert_rule(
            lambda x, p: make(x=x, perm=p),
            [layout.array(np.complex64), np.array(perm)],
            [layout.rows, REPLICATED],
            layout.num_rows,
            layout.replicas,
        )


@given(layouts(), st.lists(st.integers(1, 3), max_size=2))
def test_rows_are_broadcast_to_more_axes_in_replicas(layout: Layout, more: list[int]) -> None:
    """And axes of size one are, but not that of the rows."""
    value = layout.array()[..., None]
    assert_rule(
        lambda x, s: raw.BroadcastTo(input=x, shape=s),
        [value, np.array([*more, *layout.shape, 3])],
        [layout.rows, REPLICATED],
        layout.num_rows,
        layout.replicas,
    )


def test_a_batch_of_one_row_that_is_broadcast_along_its_axis_is_gathered() -> None:
    value, shape = numbers((1, 2)), np.array([5, 2])
    make = lambda x, s: raw.BroadcastTo(input=x, shape=s)  # noqa: E731
    assert_rule(make, [value, shape], [Sharded(0), REPLICATED], 1, 1, is_ruled=False)


def test_a_broadcast_along_axes_of_unknown_sizes_keeps_rows() -> None:
    value, shape = data((N, 1, D), Sharded(0)), integers(N, None, D)
    decision = asked("BroadcastTo", [value, shape], [(N, None, D)], N)
    assert decision is not None
    assert decision.outputs == (Sharded(0),)
    assert decision.counts_rows == {1: (True, False, False)}


def test_a_value_without_rows_does_not_get_them_from_a_shape_that_depends_on_rows() -> None:
    """The shape is a total, or has rows: it is made whole, and then all replicas do the same."""
    value = data((), REPLICATED)
    for placement in (PARTIAL, Sharded(0), Partial("max")):
        shape = integers(N).placed(placement)
        assert asked("BroadcastTo", [value, shape], [(N,)], N) is None
        assert asked("Reshape", [data((N,), REPLICATED), shape], [(N,)], N) is None
        assert asked("Fill", [shape, value], [(N,)], N) is None


@given(layouts(), st.data())
def test_axes_are_repeated_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    rank = len(layout.shape)
    times = choice.draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    assert_rule(
        lambda x, m: raw.Tile(input=x, multiples=m),
        [layout.array(), np.array(times)],
        [layout.rows, REPLICATED],
        layout.num_rows,
        layout.replicas,
        is_ruled=times[layout.rows.axis] > 0,
    )


@pytest.mark.parametrize(
    ("times", "result", "expected"),
    [
        (integers(2, None), (2 * N, None), Sharded(0, 4, 1)),
        (integers(None, 3), (N, None), Sharded(0, 2, 1)),
        (integers(None, 3), (None, None), None),
    ],
)
def test_how_often_rows_are_repeated_must_be_known(
    times: Any, result: Shape, expected: Sharded | None
) -> None:
    shape = (N, None)
    decision = asked("Tile", [data(shape, Sharded(0, 2, 1)), times], [result], N // 2)
    assert (decision and decision.outputs[0]) == expected


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (reshape, [np.array([3, 4])]),
        (lambda x, a: raw.ExpandDims(input=x, axis=a), [np.array(1)]),
        (lambda x: raw.Squeeze(input=x, axis=[1]), []),
        (lambda x, p: raw.Transpose(x=x, perm=p), [np.array([2, 1, 0])]),
    ],
)
def test_a_total_keeps_waiting_while_it_changes_its_shape(make: Any, arguments: Any) -> None:
    value = numbers((2, 1, 6))
    for replicas in (1, 2, 3):
        decision = assert_rule(
            make, [value, *arguments], [PARTIAL, *[REPLICATED] * len(arguments)], N, replicas
        )
        assert decision is not None
        assert decision.outputs == (PARTIAL,)


def test_what_grows_is_no_total_that_waits() -> None:
    value = data((2,), PARTIAL)
    assert asked("Tile", [value, integers(3)], [(6,)], N) is None
    assert asked("BroadcastTo", [value, integers(3, 2)], [(3, 2)], N) is None


def test_a_list_is_no_total() -> None:
    lists = Value(ListOf(Sharded(0)), (2,), tf.variant)
    assert asked("Reshape", [lists, integers(1, 2)], [(1, 2)], N) is None
    assert asked("ExpandDims", [lists, integers(0)], [(1, 2)], N) is None
