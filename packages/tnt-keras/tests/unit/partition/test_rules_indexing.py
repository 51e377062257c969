"""Rules of operations that take and put elements by their index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from row_layouts import Layout, asked, data, integers, layouts, number, numbers
from rule_replicas import all_rows_placements, assert_rule

from tnt_keras.partition.value import (
    HANDLE,
    PARTIAL,
    REPLICATED,
    Partial,
    Placement,
    Sharded,
    Value,
)

raw = tf.raw_ops
N = 6


def positions(choice: st.DataObject, shape: Sequence[int], size: int, first: int = 0) -> Any:
    """Indices of an axis, some more than once."""
    seed = choice.draw(st.integers(0, 99))
    return np.random.default_rng(seed).integers(first, size, shape).astype(np.int32)


def anywhere(choice: st.DataObject, shape: Sequence[int], num_rows: int) -> Placement:
    """Rows along any axis, or the same value everywhere."""
    return choice.draw(st.sampled_from([REPLICATED, *all_rows_placements(shape, num_rows)]))


def sizes(choice: st.DataObject, layout: Layout, rank: int) -> list[int]:
    """Of further axes, some of which hold the batch by accident."""
    one = st.sampled_from([layout.num_rows, 2 * layout.num_rows, 1, 2])
    return choice.draw(st.lists(one, min_size=rank, max_size=rank))


@given(layouts(), st.data())
def test_slices_are_gathered_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    rank = len(layout.shape)
    axis = choice.draw(st.integers(0, rank - 1))
    batch = choice.draw(st.integers(0, axis))
    shape = [*layout.shape[:batch], *sizes(choice, layout, choice.draw(st.integers(0, 2)))]
    indices = positions(choice, shape, layout.shape[axis])
    places = [layout.rows, REPLICATED, PARTIAL]
    dims = choice.draw(st.sampled_from([batch, batch - len(shape)] if shape else [0]))
    assert_rule(
        lambda p, i, a: raw.GatherV2(params=p, indices=i, axis=a, batch_dims=dims),
        [layout.array(), indices, np.array(choice.draw(st.sampled_from([axis, axis - rank])))],
        [
            choice.draw(st.sampled_from(places)),
            anywhere(choice, shape, layout.num_rows),
            REPLICATED,
        ],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize(
    ("params", "where", "indices", "rows", "axis", "batch", "expected"),
    [
        ((7, 3), REPLICATED, (N, 4), Sharded(0), 0, 0, Sharded(0)),  # an embedding
        ((7, 3), REPLICATED, (4, N), Sharded(1), 0, 0, Sharded(1)),
        ((7, 3), PARTIAL, (N, 4), Sharded(0), 0, 0, Sharded(0)),
        ((2, 7, 3), REPLICATED, (N, 4), Sharded(0), 1, 0, Sharded(1)),
        ((N, 7, 3), Sharded(0), (4,), REPLICATED, 1, 0, Sharded(0)),
        ((7, N), Sharded(1), (4, 4), REPLICATED, 0, 0, Sharded(2)),
        ((N, 7, 3), Sharded(0), (N, 4), Sharded(0), 1, 1, Sharded(0)),  # positions of each row
        ((N, 7, 3), Sharded(0), (N, 4), REPLICATED, 1, 1, Sharded(0)),
        ((N, 7, 3), REPLICATED, (N, 4), Sharded(0), 1, 1, Sharded(0)),
        ((7, N), Sharded(1), (4,), PARTIAL, 0, 0, Sharded(1)),
        (
            (N, 3),
            Sharded(0),
            (N,),
            Sharded(0),
            0,
            0,
            Sharded(0),
        ),  # rows by position: `params` are gathered
        ((N, 3), Sharded(0), (4,), REPLICATED, 0, 0, None),
        ((7, 3), PARTIAL, (4,), REPLICATED, 0, 0, PARTIAL),
    ],
)
def test_gathered_slices_have_rows_where_params_or_indices_have_them(
    params: Any,
    where: Any,
    indices: Any,
    rows: Any,
    axis: int,
    batch: int,
    expected: Placement | None,
) -> None:
    chosen = np.arange(np.prod(indices), dtype=np.int32).reshape(indices) % params[axis]
    is_ruled = expected is not None
    for dims in (batch, batch - len(indices)):
        decision = assert_rule(
            lambda p, i, a, dims=dims: raw.GatherV2(params=p, indices=i, axis=a, batch_dims=dims),
            [numbers(params), chosen, np.array(axis)],
            [where, rows, REPLICATED],
            N,
            4,
            constants=[False, False, True],
            is_ruled=is_ruled,
        )
        assert (decision and decision.outputs[0]) == expected
    if axis == 0 and batch == 0:
        gather = lambda p, i: raw.Gather(params=p, indices=i)  # noqa: E731
        assert_rule(gather, [numbers(params), chosen], [where, rows], N, 4, is_ruled=is_ruled)


def test_gathered_slices_may_have_unknown_axes() -> None:
    for params, where, indices, rows, axis, batch, expected in (
        ((7, 3), REPLICATED, (N, None), Sharded(0), 0, 0, Sharded(0)),
        ((7, 3), REPLICATED, (None,), Sharded(0, 1, None), 0, 0, Sharded(0, 1, None)),
        ((N, None, 3), Sharded(0), (N, None), Sharded(0), 1, 1, Sharded(0)),
        ((N, None, 3), Sharded(0), (None,), REPLICATED, 1, 0, Sharded(0)),
    ):
        inputs = [data(params, where), data(indices, rows), number(axis)]
        shape = (None,) * (len(params) + len(indices) - 1 - batch)
        decision = asked("GatherV2", inputs, [shape], N, batch_dims=batch)
        assert decision is not None
        assert decision.outputs == (expected,)


@given(layouts(), st.data())
def test_slices_at_coordinates_are_gathered_in_replicas(
    layout: Layout, choice: st.DataObject
) -> None:
    depth = choice.draw(st.integers(1, len(layout.shape)))
    shape = sizes(choice, layout, choice.draw(st.integers(0, 2)))
    coordinates = [positions(choice, shape, layout.shape[axis]) for axis in range(depth)]
    indices = np.stack(coordinates, -1)
    assert_rule(
        lambda p, i: raw.GatherNd(params=p, indices=i),
        [layout.array(), indices],
        [
            choice.draw(st.sampled_from([layout.rows, REPLICATED, PARTIAL])),
            anywhere(choice, indices.shape, layout.num_rows),
        ],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize(
    ("where", "rows", "expected"),
    [
        (REPLICATED, Sharded(0), Sharded(0)),
        (PARTIAL, Sharded(0), Sharded(0)),
        (Sharded(1), REPLICATED, Sharded(1)),
        (PARTIAL, REPLICATED, PARTIAL),
        (Sharded(0), Sharded(0), Sharded(0)),
        (Sharded(0), REPLICATED, None),
    ],
)
def test_coordinates_with_rows_give_rows(where: Any, rows: Any, expected: Placement | None) -> None:
    coordinates = np.arange(N, dtype=np.int32)[:, None] % 3
    gather_nd = lambda p, i: raw.GatherNd(params=p, indices=i)  # noqa: E731
    decision = assert_rule(gather_nd, [numbers((N, N)), coordinates], [where, rows], N, 4,
                           is_ruled=expected is not None)  # fmt: skip
    assert (decision and decision.outputs[0]) == expected


@pytest.mark.parametrize("rows", [Sharded(0), Sharded(1), Sharded(1, 2, 1)])
def test_rows_of_indices_are_rows_of_what_is_read_from_a_variable(rows: Sharded) -> None:
    handle = Value(HANDLE, (), tf.resource)
    indices = data((2 * N, 2 * N, None), rows)
    for kind, attributes in (("ResourceGather", {"batch_dims": 0}), ("ResourceGatherNd", {})):
        decision = asked(kind, [handle, indices], [None], N, **attributes)
        assert decision is not None
        assert decision.inputs == (HANDLE, rows)
        assert decision.outputs == (rows,)


def test_axes_of_a_variable_are_not_cut() -> None:
    handle = Value(HANDLE, (), tf.resource)
    indices = data((N, N), Sharded(0))
    assert asked("ResourceGather", [handle, indices], [None], N, batch_dims=1) is None
    indices = data((N, N), Sharded(1))
    assert asked("ResourceGatherNd", [handle, indices], [None], N) is None


@given(layouts(), st.data())
def test_indices_become_one_hot_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    decision = assert_rule(
        lambda i, d, on, off: raw.OneHot(
            indices=i, depth=d, on_value=on, off_value=off,
            axis=choice.draw(st.integers(-1, len(layout.shape))),
        ),
        [positions(choice, layout.shape, layout.num_rows), np.int32(layout.num_rows), 5.0, 2.0],
        [layout.rows, REPLICATED, PARTIAL, REPLICATED],
        layout.num_rows,
        layout.replicas,
    )  # fmt: skip
    assert decision is not None


SEGMENTS = [
    raw.UnsortedSegmentSum,
    raw.UnsortedSegmentProd,
    raw.UnsortedSegmentMax,
    raw.UnsortedSegmentMin,
]


@pytest.mark.parametrize("make", SEGMENTS)
@given(layouts(), st.data())
def test_segments_are_reduced_in_replicas(make: Any, layout: Layout, choice: st.DataObject) -> None:
    """Also those of which one or no replica has a row; slices with a negative number are left."""
    rank = len(layout.shape)
    shape = layout.shape[: choice.draw(st.integers(0, rank))]
    num_segments = choice.draw(st.sampled_from([layout.num_rows, 3]))
    dtype = choice.draw(st.sampled_from([np.float32, np.int32]))
    assert_rule(
        lambda d, s, n: make(data=d, segment_ids=s, num_segments=n),
        [
            layout.array(dtype) % 7 - 3,
            positions(choice, shape, num_segments, -1),
            np.array(num_segments),
        ],
        [
            choice.draw(st.sampled_from([layout.rows, REPLICATED])),
            anywhere(choice, shape, layout.num_rows),
            REPLICATED,
        ],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize(
    ("make", "reduction"), list(zip(SEGMENTS, ["sum", "prod", "max", "min"], strict=True))
)
def test_rows_of_segments_give_one_operand_for_each_replica(make: Any, reduction: str) -> None:
    values = np.array([1, -2, np.inf, -np.inf, 3, np.finfo(np.float32).min], np.float32)
    segments = np.array([0, 0, 1, 2, 0, 4], np.int32)
    for where, ids in (
        (Sharded(0), Sharded(0)),
        (Sharded(0), REPLICATED),
        (REPLICATED, Sharded(0)),
    ):
        decision = assert_rule(
            lambda d, s, n: make(data=d, segment_ids=s, num_segments=n),
            [values, segments, np.array(5)],
            [where, ids, REPLICATED],
            N,
            4,
        )
        assert decision is not None
        assert decision.inputs[:2] == (Sharded(0), Sharded(0))
        assert decision.outputs == (Partial(reduction),)


def test_slices_of_segments_keep_their_rows() -> None:
    values = numbers((4, 3, N))
    decision = assert_rule(
        lambda d, s, n: raw.UnsortedSegmentSum(data=d, segment_ids=s, num_segments=n),
        [values, np.zeros((4, 3), np.int32), np.array(2)],
        [Sharded(2), REPLICATED, REPLICATED],
        N,
        4,
    )
    assert decision is not None
    assert decision.outputs == (Sharded(1),)


def test_complex_segments_have_a_sum_alone() -> None:
    values = numbers((N, 2), np.complex64)
    segments = np.arange(N, dtype=np.int32) % 2
    for make, is_ruled in ((raw.UnsortedSegmentSum, True), (raw.UnsortedSegmentProd, False)):
        assert_rule(
            lambda d, s, n, make=make: make(data=d, segment_ids=s, num_segments=n),
            [values, segments, np.array(2)],
            [Sharded(0), Sharded(0), REPLICATED],
            N,
            3,
            is_ruled=is_ruled,
        )


def test_the_sum_of_segments_is_no_total_of_totals() -> None:
    """Whether that pays is for the reader of a total to say: it is formed first."""
    total = data((4, 3), PARTIAL)
    assert (
        asked("UnsortedSegmentSum", [total, integers(0, 1, 0, 1), number(2)], [(2, 3)], N) is None
    )


@pytest.mark.parametrize(
    "make", [raw.SegmentSum, raw.SegmentMean, raw.SegmentProd, raw.SegmentMax, raw.SegmentMin]
)
def test_how_many_sorted_segments_there_are_depends_on_all_rows(make: Any) -> None:
    values = numbers((N, N))
    segments = lambda d, s: make(data=d, segment_ids=s)  # noqa: E731
    for ids in (np.array([0, 0, 1, 1, 3, 3], np.int32), np.arange(N, dtype=np.int32)):
        assert_rule(segments, [values, ids], [Sharded(1), REPLICATED], N, 4)
        assert_rule(segments, [values, ids], [Sharded(1), Sharded(0)], N, 4)
        assert_rule(segments, [values, ids], [Sharded(0), REPLICATED], N, 4, is_ruled=False)
        assert_rule(segments, [values, ids], [Sharded(0), Sharded(0)], N, 4, is_ruled=False)


@st.composite
def scatters(draw: st.DrawFn) -> Any:
    """-> layout of the updated value, coordinates, updates."""
    layout = draw(layouts())
    choice = draw(st.data())
    depth = draw(st.integers(1, len(layout.shape)))
    shape = sizes(choice, layout, draw(st.integers(1, 2)))
    coordinates = np.stack([positions(choice, shape, layout.shape[a]) for a in range(depth)], -1)
    updates = numbers([*shape, *layout.shape[depth:]])
    places = [
        draw(st.sampled_from([layout.rows, REPLICATED])),
        anywhere(choice, coordinates.shape, layout.num_rows),
        anywhere(choice, updates.shape, layout.num_rows),
    ]
    return layout, coordinates, updates, places


@given(scatters())
def test_updates_are_scattered_in_replicas(case: Any) -> None:
    layout, coordinates, updates, places = case
    assert_rule(
        lambda i, u, s: raw.ScatterNd(indices=i, updates=u, shape=s),
        [coordinates, updates, np.array(layout.shape, np.int32)],
        [places[1], places[2], REPLICATED],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize(
    ("coordinates", "updates", "expected"),
    [
        (Sharded(0), Sharded(0), PARTIAL),
        (Sharded(0), REPLICATED, PARTIAL),
        (REPLICATED, Sharded(0), PARTIAL),
        (REPLICATED, Sharded(1), Sharded(1)),
        (Sharded(1), REPLICATED, None),
    ],
)
def test_scattered_rows_are_added_up_and_scattered_slices_keep_rows(
    coordinates: Any, updates: Any, expected: Placement | None
) -> None:
    where = np.zeros((1, 1), np.int32) if expected == Sharded(1) else np.arange(N)[:, None] % 3
    where = where.astype(np.int32)
    if coordinates == Sharded(1):
        where = np.zeros((N, N), np.int32)
    values = numbers((len(where), N)) if expected is not None else numbers((N,))
    shape = (4, N) if expected is not None else (1,) * N
    decision = assert_rule(
        lambda i, u, s: raw.ScatterNd(indices=i, updates=u, shape=s),
        [where, values, np.array(shape, np.int32)],
        [coordinates, updates, REPLICATED],
        N,
        4,
        is_ruled=expected is not None,
    )
    assert (decision and decision.outputs[0]) == expected


def test_scattered_booleans_and_strings_are_no_total() -> None:
    where = np.arange(N, dtype=np.int32)[:, None]
    for values in (np.ones(N, bool), np.array([b"a"] * N)):
        assert_rule(
            lambda i, u, s: raw.ScatterNd(indices=i, updates=u, shape=s),
            [where, values, np.array([N], np.int32)],
            [Sharded(0), Sharded(0), REPLICATED],
            N,
            3,
            is_ruled=False,
        )


@pytest.mark.parametrize(
    "make",
    [
        raw.TensorScatterUpdate,
        raw.TensorScatterAdd,
        raw.TensorScatterSub,
        raw.TensorScatterMax,
        raw.TensorScatterMin,
    ],
)
@given(scatters())
def test_slices_of_a_tensor_are_updated_in_replicas(make: Any, case: Any) -> None:
    layout, coordinates, updates, places = case
    decision = assert_rule(
        lambda t, i, u: make(tensor=t, indices=i, updates=u),
        [layout.array(), coordinates, updates],
        places,
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )
    depth = coordinates.shape[-1]
    if isinstance(places[0], Sharded):
        assert (decision is not None) or places[0].axis < depth


def test_a_number_of_segments_that_depends_on_rows_gives_no_rows() -> None:
    value, ids = data((4,), REPLICATED), integers(0, 1, 0, 1)
    for placement in (PARTIAL, Sharded(0), Partial("max")):
        count = integers(2).placed(placement)
        assert asked("UnsortedSegmentSum", [value, ids, count], [(2,)], N) is None
        assert asked("ScatterNd", [ids, value, count], [(2,)], N) is None
        assert asked("OneHot", [ids, count, value, value], [(4, 2)], N, axis=-1) is None
