"""Rules of operations that cut, join and pad along axes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from row_layouts import Layout, asked, data, integers, layouts, number, numbers
from rule_replicas import all_rows_placements, assert_rule
from tensorflow.python.ops.gen_array_ops import mirror_pad_grad

from tnt_keras.partition.value import PARTIAL, REPLICATED, Partial, Placement, Shape, Sharded, Value

raw = tf.raw_ops
N = 6


def block_of(layout: Layout) -> int:
    """Elements of one block of the batch along the rows' axis."""
    assert layout.rows.inner is not None
    return layout.num_rows * layout.rows.inner


@st.composite
def ranges(draw: st.DrawFn, size: int, block: int) -> slice:
    """Part of an axis, often of whole blocks, counted from either end, and perhaps beyond it."""
    if draw(st.booleans()):
        first, last = sorted(draw(st.tuples(*[st.integers(0, size // block)] * 2)))
        begin = draw(st.sampled_from([first * block, first * block - size or None]))
        end = draw(st.sampled_from([last * block, last * block - size or None]))
        return slice(begin, end)
    bounds = st.none() | st.integers(-size - 1, size + 1) | st.sampled_from([2 * size, 2**31 - 1])
    return slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2, -1])))


@st.composite
def indices(draw: st.DrawFn, layout: Layout) -> tuple[Any, ...]:
    """What stands between the brackets of `x[...]`, not all axes of which are named."""
    named = draw(st.integers(0, len(layout.shape)))
    items: list[Any] = []
    for axis in range(named):
        size = layout.shape[axis]
        block = block_of(layout) if axis == layout.rows.axis else 1
        items.append(draw(ranges(size, block) | st.integers(-size, size - 1)))
    rest = len(layout.shape) - named
    if draw(
        st.booleans()
    ):  # the ellipsis stands for axes from here on: later ones count from the last
        place = draw(st.integers(0, named))
        moved = list(layout.shape[:place]) + list(layout.shape[place + rest :])
        items = [i if _fits(i, size) else 0 for i, size in zip(items, moved, strict=True)]
        items.insert(place, Ellipsis)
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


def _fits(item: Any, size: int) -> bool:
    return isinstance(item, slice) or -size <= item < size


def strided_grad(shape: tuple[int, ...], index: Any, derivative: Any) -> Any:
    """The derivative of `x[index]` for an `x` of some shape."""
    cut = tf.zeros(shape)[index].op
    masks = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
    return raw.StridedSliceGrad(
        shape=tf.constant(shape),
        begin=cut.inputs[1],
        end=cut.inputs[2],
        strides=cut.inputs[3],
        dy=derivative,
        **{mask: cut.get_attr(mask) for mask in masks},
    )


@given(layouts(), st.data())
def test_a_strided_slice_in_replicas_is_the_slice_and_its_derivative_leads_back(
    layout: Layout, choice: st.DataObject
) -> None:
    index = choice.draw(indices(layout))
    value, num_rows, replicas = layout.array(), layout.num_rows, layout.replicas
    decision = assert_rule(
        lambda x: x[index] if index else x[...], [value], [layout.rows], num_rows, replicas,
        is_ruled=None, operation_type="StridedSlice",
    )  # fmt: skip
    if decision is None:
        return
    derivative = assert_rule(
        lambda dy: strided_grad(layout.shape, index or ..., dy),
        [numbers(value[index].shape)],
        decision.outputs,
        num_rows,
        replicas,
        operation_type="StridedSliceGrad",
    )
    assert derivative is not None
    assert derivative.outputs == (layout.rows,)


@given(layouts(), st.data())
def test_the_derivative_of_a_slice_with_rows_anywhere_is_the_derivative(
    layout: Layout, choice: st.DataObject
) -> None:
    index = choice.draw(indices(layout)) or (Ellipsis,)
    derivative = numbers(layout.array()[index].shape)
    places = all_rows_placements(derivative.shape, layout.num_rows)
    if places:
        assert_rule(
            lambda dy: strided_grad(layout.shape, index, dy),
            [derivative],
            [choice.draw(st.sampled_from(places))],
            layout.num_rows,
            layout.replicas,
            is_ruled=None,
            operation_type="StridedSliceGrad",
        )


TWO_VIEWS = Sharded(0, 2, 1)


@pytest.mark.parametrize(
    ("index", "shape", "rows", "expected"),
    [
        (np.s_[:, 0], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[:, -1:], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[:, ::-1], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[..., 1:], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[:, None], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[None, ..., None], (N, 4), Sharded(0), Sharded(1)),
        (np.s_[0], (4, N), Sharded(1), Sharded(0)),
        (np.s_[0:N, 1], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[-N:], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[: 2 * N], (N, 4), Sharded(0), Sharded(0)),
        (np.s_[:N], (2 * N, 4), TWO_VIEWS, Sharded(0)),
        (np.s_[N:], (2 * N, 4), TWO_VIEWS, Sharded(0)),
        (np.s_[-N:], (2 * N, 4), TWO_VIEWS, Sharded(0)),
        (np.s_[:-N], (2 * N, 4), TWO_VIEWS, Sharded(0)),
        (np.s_[4 * N : 8 * N], (8 * N,), Sharded(0, 2, 4), Sharded(0, 1, 4)),
    ],
)
def test_a_slice_takes_whole_blocks_of_the_batch(
    index: Any, shape: tuple[int, ...], rows: Sharded, expected: Sharded
) -> None:
    for replicas in (1, 4, N):
        decision = assert_rule(lambda x: x[index], [numbers(shape)], [rows], N, replicas)
        assert decision is not None
        assert decision.outputs == (expected,)


@pytest.mark.parametrize(
    ("index", "shape", "rows"),
    [
        (np.s_[::-1], (N,), Sharded(0)),
        (np.s_[::2], (N,), Sharded(0)),
        (np.s_[0], (N, 4), Sharded(0)),
        (np.s_[1:], (N,), Sharded(0)),
        (np.s_[:0], (N,), Sharded(0)),
        (np.s_[:N], (2 * N,), Sharded(0, 1, 2)),
        (np.s_[: 3 * N], (4 * N,), Sharded(0, 2, 2)),
        (np.s_[3 : N + 3], (2 * N,), TWO_VIEWS),
    ],
)
def test_rows_that_are_picked_by_position_are_gathered(
    index: Any, shape: tuple[int, ...], rows: Sharded
) -> None:
    assert_rule(lambda x: x[index], [numbers(shape)], [rows], N, 2, is_ruled=False)


def test_a_batch_of_one_row_that_is_picked_is_gathered() -> None:
    assert_rule(lambda x: x[0], [numbers((1, 4))], [Sharded(0)], 1, 1, is_ruled=False)


def test_an_entry_of_two_kinds_is_what_tensorflow_takes_it_for() -> None:
    new_axis = {"new_axis_mask": 1, "shrink_axis_mask": 1}
    for masks in (new_axis, new_axis | {"ellipsis_mask": 1}):
        assert_rule(
            lambda x, b, e, s, masks=masks: raw.StridedSlice(
                input=x, begin=b, end=e, strides=s, **masks
            ),
            [numbers((N, 2)), np.array([0, 0]), np.array([1, 2]), np.array([1, 1])],
            [Sharded(0), REPLICATED, REPLICATED, REPLICATED],
            N,
            4,
            is_ruled="ellipsis_mask" in masks,
        )


NO_MASKS = dict.fromkeys(
    ["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"], 0
)
OF_ANY_SIZE = Sharded(0, 1, None)
BOTH_OPEN = {"begin_mask": 1, "end_mask": 1}


@pytest.mark.parametrize(
    ("shape", "rows", "begin", "end", "masks", "result", "expected"),
    [
        # x[:, t], in a loop over steps
        ((N, None, 4), Sharded(0), (0, None), (0, None), BOTH_OPEN, (N, 4), Sharded(0)),
        ((N, None, 4), Sharded(0), (0, None), (N, None), {}, (N, 4), Sharded(0)),
        # x[:N, t] and x[N:, t] of two views
        ((2 * N, None), TWO_VIEWS, (0, None), (N, None), {}, (N,), Sharded(0)),
        ((2 * N, None), TWO_VIEWS, (N, None), (0, None), {"end_mask": 1}, (N,), Sharded(0)),
        # x[0:] of rows that are merged with steps
        ((None, 4), OF_ANY_SIZE, (0, 0), (0, 0), {"end_mask": 3}, (None, 4), OF_ANY_SIZE),
        # what is counted from the end, beside what is not known; and what is not known of the rows
        ((2 * N, None), TWO_VIEWS, (-N, None), (0, None), {"end_mask": 1}, (N,), None),
        ((N, None), Sharded(0), (None, 0), (None, 0), {"end_mask": 2}, (None, None), None),
        ((None, 4), Sharded(0, 1, None), (0, 0), (N, 0), {"end_mask": 2}, (N, 4), None),
    ],
)  # fmt: skip
def test_slices_are_known_as_far_as_it_matters(
    shape: Shape,
    rows: Sharded,
    begin: Any,
    end: Any,
    masks: dict[str, int],
    result: Shape,
    expected: Sharded | None,
) -> None:
    shrinks = 0 if result is not None and shape is not None and len(result) == len(shape) else 2
    attributes = NO_MASKS | {"shrink_axis_mask": shrinks} | masks
    operands = [integers(*begin), integers(*end), integers(1, 1)]
    decision = asked("StridedSlice", [data(shape, rows), *operands], [result], N, **attributes)
    assert (decision and decision.outputs[0]) == expected
    if expected is None:
        return
    back = asked(
        "StridedSliceGrad",
        [integers(*shape or ()), *operands, data(result, expected)],
        [(None,) * len(shape or ())],
        N,
        **attributes,
    )
    assert back is not None
    assert back.outputs == (rows,)


@given(layouts(), st.data())
def test_a_slice_by_begin_and_size_in_replicas_is_the_slice(
    layout: Layout, choice: st.DataObject
) -> None:
    begin, size = [], []
    for axis, whole in enumerate(layout.shape):
        step = block_of(layout) if axis == layout.rows.axis and choice.draw(st.booleans()) else 1
        first = choice.draw(st.integers(0, whole // step)) * step
        begin.append(first)
        size.append(choice.draw(st.integers(-1, (whole - first) // step)))
        size[-1] *= step if size[-1] > 0 else 1
    decision = assert_rule(
        lambda x, b, s: raw.Slice(input=x, begin=b, size=s),
        [layout.array(), np.array(begin), np.array(size)],
        [layout.rows, REPLICATED, REPLICATED],
        layout.num_rows,
        layout.replicas,
        is_ruled=None,
    )
    axis = layout.rows.axis
    if size[axis] == layout.shape[axis] or (begin[axis], size[axis]) == (0, -1):
        assert decision is not None


@pytest.mark.parametrize(
    ("begin", "size", "expected"),
    [
        (0, -1, Sharded(0, 3, 1)),
        (0, 3 * N, Sharded(0, 3, 1)),
        (0, N, Sharded(0)),
        (N, N, Sharded(0)),
        (N, -1, Sharded(0, 2, 1)),
        (N, 0, None),
        (1, N, None),
    ],
)
def test_a_slice_by_begin_and_size_takes_whole_blocks(
    begin: int, size: int, expected: Sharded | None
) -> None:
    decision = assert_rule(
        lambda x, b, s: raw.Slice(input=x, begin=b, size=s),
        [numbers((3 * N, 2)), np.array([begin, 0]), np.array([size, 2])],
        [Sharded(0, 3, 1), REPLICATED, REPLICATED],
        N,
        4,
        is_ruled=expected is not None,
    )
    assert (decision and decision.outputs[0]) == expected


@pytest.mark.parametrize(
    ("shape", "rows", "begin", "size", "expected"),
    [
        ((N, None), Sharded(0), (0, None), (N, None), Sharded(0)),
        ((N, None), Sharded(0), (None, None), (N, None), Sharded(0)),  # it can only begin at 0
        ((N, None), Sharded(0), (0, None), (-1, None), Sharded(0)),
        ((2 * N, None), TWO_VIEWS, (N, None), (-1, None), Sharded(0)),
        ((2 * N, None), TWO_VIEWS, (N, None), (N, None), Sharded(0)),
        ((None, 4), Sharded(0, 1, None), (0, 0), (-1, 2), Sharded(0, 1, None)),
        ((2 * N, None), TWO_VIEWS, (None, None), (N, None), None),
        ((2 * N, None), TWO_VIEWS, (0, None), (None, None), None),
        ((None, 4), Sharded(0, 1, None), (0, 0), (None, 2), None),
        ((None, 4), Sharded(0, 1, None), (0, 0), (N, 2), None),
    ],
)
def test_a_slice_by_begin_and_size_is_known_as_far_as_it_matters(
    shape: Shape, rows: Sharded, begin: Any, size: Any, expected: Sharded | None
) -> None:
    inputs = [data(shape, rows), integers(*begin), integers(*size)]
    decision = asked("Slice", inputs, [(None, None)], N)
    assert (decision and decision.outputs[0]) == expected


def concat_v2(*inputs: Any) -> Any:
    *values, axis = inputs
    return raw.ConcatV2(values=values, axis=axis)


def concat(*inputs: Any) -> Any:
    axis, *values = inputs
    return raw.Concat(concat_dim=axis, values=values)


@given(layouts(), st.data())
def test_values_are_joined_and_cut_again_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    rank, num_rows, replicas = len(layout.shape), layout.num_rows, layout.replicas
    axis = choice.draw(st.integers(-rank, rank - 1))
    values, placements = [layout.array()], [layout.rows]
    for _ in range(choice.draw(st.integers(1, 2))):
        shape = list(layout.shape)
        step = block_of(layout) if choice.draw(st.booleans()) else 1
        shape[axis] = step * choice.draw(st.integers(0, 3))
        values.append(numbers(shape))
        places = [REPLICATED, PARTIAL, *all_rows_placements(shape, num_rows)]
        placements.append(choice.draw(st.sampled_from(places)))
    order = choice.draw(st.permutations(range(len(values))))
    values, placements = [values[i] for i in order], [placements[i] for i in order]
    make, inputs, where = choice.draw(
        st.sampled_from(
            [
                (concat_v2, [*values, np.int32(axis)], [*placements, REPLICATED]),
                (concat, [np.int32(axis), *values], [REPLICATED, *placements]),
            ]
        )
    )
    decision = assert_rule(make, inputs, where, num_rows, replicas, is_ruled=None)
    if decision is None:
        return
    sizes = [value.shape[axis] for value in values]
    assert_rule(
        lambda x, s, a: raw.SplitV(value=x, size_splits=s, axis=a, num_split=len(sizes)),
        [np.concatenate(values, axis), np.array(sizes), np.int32(axis)],
        [*decision.outputs, REPLICATED, REPLICATED],
        num_rows,
        replicas,
        is_ruled=None if 0 in sizes else True,
    )


@pytest.mark.parametrize(
    ("sizes", "placements", "expected"),
    [
        ((N, N), (Sharded(0), Sharded(0)), TWO_VIEWS),
        ((N, 2 * N), (Sharded(0), TWO_VIEWS), Sharded(0, 3, 1)),
        ((N, N), (Sharded(0), REPLICATED), TWO_VIEWS),
        ((2 * N, 2 * N), (Sharded(0, 1, 2), Sharded(0, 1, 2)), Sharded(0, 2, 2)),
        ((2 * N, 2 * N), (Sharded(0, 1, 2), TWO_VIEWS), None),
        ((N, 3), (Sharded(0), REPLICATED), None),
        ((N, 0), (Sharded(0), REPLICATED), None),
    ],
)
def test_whole_blocks_are_joined_along_the_axis_of_the_rows(
    sizes: Any, placements: Any, expected: Sharded | None
) -> None:
    values = [numbers((size, 3)) for size in sizes]
    decision = assert_rule(
        concat_v2,
        [*values, np.int32(0)],
        [*placements, REPLICATED],
        N,
        4,
        is_ruled=expected is not None,
    )
    assert (decision and decision.outputs[0]) == expected


def test_blocks_of_unknown_lengths_are_not_joined() -> None:
    """Rows that are merged with steps: of how many is not known, nor whether of equally many."""
    merged = data((None, 4), Sharded(0, 1, None))
    assert asked("ConcatV2", [merged, merged, number(0)], [(None, 4)], N) is None
    decision = asked("ConcatV2", [merged, merged, number(-1)], [(None, 8)], N)
    assert decision is not None
    assert decision.outputs == (Sharded(0, 1, None),)


def test_parts_of_which_one_takes_the_rest_are_whole_blocks() -> None:
    make = lambda x, s, a: raw.SplitV(value=x, size_splits=s, axis=a, num_split=2)  # noqa: E731
    for sizes in ((N, -1), (-1, N)):
        inputs = [numbers((3 * N, 2)), np.array(sizes), np.int32(0)]
        decision = assert_rule(make, inputs, [Sharded(0, 3, 1), REPLICATED, REPLICATED], N, 4)
        assert decision is not None
        assert set(decision.outputs) == {Sharded(0), TWO_VIEWS}


def test_a_value_of_which_one_part_is_empty_is_gathered() -> None:
    """There are no blocks of which each replica could have its rows."""
    make = lambda x, s, a: raw.SplitV(value=x, size_splits=s, axis=a, num_split=2)  # noqa: E731
    inputs = [numbers((N, 2)), np.array([0, N]), np.int32(0)]
    assert_rule(make, inputs, [Sharded(0), REPLICATED, REPLICATED], N, 2, is_ruled=False)


@given(layouts(), st.data())
def test_a_value_is_cut_into_equal_parts_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    axis = choice.draw(st.integers(-len(layout.shape), len(layout.shape) - 1))
    size = layout.shape[axis]
    number_of_parts = choice.draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
    is_of_blocks = size // number_of_parts % block_of(layout) == 0
    assert_rule(
        lambda a, x: raw.Split(axis=a, value=x, num_split=number_of_parts),
        [np.int32(axis), layout.array()],
        [REPLICATED, layout.rows],
        layout.num_rows,
        layout.replicas,
        is_ruled=is_of_blocks or axis % len(layout.shape) != layout.rows.axis,
    )


@given(layouts(), st.data())
def test_values_are_stacked_and_taken_apart_in_replicas(
    layout: Layout, choice: st.DataObject
) -> None:
    rank, num_rows, replicas = len(layout.shape), layout.num_rows, layout.replicas
    axis = choice.draw(st.integers(-rank - 1, rank))
    others = [REPLICATED, PARTIAL, *all_rows_placements(layout.shape, num_rows)]
    placements = [layout.rows, choice.draw(st.sampled_from(others))]
    placements = choice.draw(st.permutations(placements))
    value = layout.array()
    pack = lambda *values: raw.Pack(values=values, axis=axis)  # noqa: E731
    decision = assert_rule(pack, [value, -value], placements, num_rows, replicas)
    assert decision is not None
    assert_rule(
        lambda x: raw.Unpack(value=x, num=2, axis=axis),
        [np.stack([value, -value], axis)],
        decision.outputs,
        num_rows,
        replicas,
    )


def test_rows_that_are_taken_apart_are_gathered() -> None:
    take_apart = lambda x: raw.Unpack(value=x, num=N, axis=-2)  # noqa: E731
    assert_rule(take_apart, [numbers((N, 3))], [Sharded(0)], N, 2, is_ruled=False)


@st.composite
def paddings(draw: st.DrawFn, layout: Layout) -> Any:
    sides = []
    for axis in range(len(layout.shape)):
        step = block_of(layout) if axis == layout.rows.axis and draw(st.booleans()) else 1
        sides.append([step * draw(st.integers(0, 2)) for _ in range(2)])
    return np.array(sides)


@given(layouts(), st.data())
def test_axes_are_padded_in_replicas(layout: Layout, choice: st.DataObject) -> None:
    sides = choice.draw(paddings(layout))
    common = [layout.num_rows, layout.replicas]
    is_of_blocks = not (sides[layout.rows.axis] % block_of(layout)).any()
    assert_rule(
        lambda x, p: raw.Pad(input=x, paddings=p),
        [layout.array(), sides],
        [layout.rows, REPLICATED],
        *common,
        is_ruled=is_of_blocks,
    )
    assert_rule(
        lambda x, p, c: raw.PadV2(input=x, paddings=p, constant_values=c),
        [layout.array(), sides, np.float32(7)],
        [layout.rows, REPLICATED, PARTIAL],
        *common,
        is_ruled=is_of_blocks,
    )


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
@given(layouts(), st.data())
def test_axes_are_padded_with_their_own_mirror_image_in_replicas(
    mode: str, layout: Layout, choice: st.DataObject
) -> None:
    fits = [[min(side, size - 1) for side in sides] for sides, size in zip(
        choice.draw(paddings(layout)), layout.shape, strict=True
    )]  # fmt: skip
    is_ruled = not any(fits[layout.rows.axis])
    decision = assert_rule(
        lambda x, p: raw.MirrorPad(input=x, paddings=p, mode=mode),
        [layout.array(), np.array(fits)],
        [layout.rows, REPLICATED],
        layout.num_rows,
        layout.replicas,
        is_ruled=is_ruled,
    )
    if decision is None:
        return
    shape = np.array(layout.shape) + np.sum(fits, 1)
    assert_rule(
        lambda dy, p: mirror_pad_grad(input=dy, paddings=p, mode=mode),
        [numbers(shape), np.array(fits)],
        [*decision.outputs, REPLICATED],
        layout.num_rows,
        layout.replicas,
    )


def test_rows_without_padding_need_not_know_that_of_other_axes() -> None:
    unknown = Value(REPLICATED, (2, 2), tf.int32)
    value = data((N, None), Sharded(0))
    decision = asked("Pad", [value, unknown], [(N, None)], N)
    assert decision is not None
    assert decision.outputs == (Sharded(0),)
    assert asked("Pad", [value, unknown], [(None, None)], N) is None
    assert asked("Pad", [value, unknown], [(2 * N, None)], N) is None


@pytest.mark.parametrize(
    ("make", "arguments"),
    [
        (lambda x: x[1:, ..., None, 0], []),
        (lambda x: strided_grad((4, 5), np.s_[1:3, ::2], x), []),
        (lambda x, b, s: raw.Slice(input=x, begin=b, size=s), [np.array([0, 1]), np.array([2, 2])]),
        (lambda x, p: raw.Pad(input=x, paddings=p), [np.array([[0, 1], [2, 3]])]),
        (lambda x: raw.Unpack(value=x, num=2, axis=0), []),
        (
            lambda x, s, a: raw.SplitV(value=x, size_splits=s, axis=a, num_split=2),
            [np.array([1, 2]), np.int32(1)],
        ),
    ],
)
def test_a_total_keeps_waiting_while_it_is_cut_and_padded(make: Any, arguments: Any) -> None:
    for replicas in (1, 2, 3):
        placements = [PARTIAL, *[REPLICATED] * len(arguments)]
        decision = assert_rule(make, [numbers((2, 3)), *arguments], placements, N, replicas)
        assert decision is not None
        assert set(decision.outputs) == {PARTIAL}


def test_totals_are_joined_only_with_totals() -> None:
    """A replicated value is no total, and a maximum is none."""
    values = [numbers((2, 3)), numbers((2, 3))]
    for make, rest in ((concat_v2, [np.int32(0)]), (lambda *v: raw.Pack(values=v), [])):
        for second, is_ruled in (
            (PARTIAL, True), (REPLICATED, False), (Partial("max"), False),
        ):  # fmt: skip
            placements: list[Placement] = [PARTIAL, second, *[REPLICATED] * len(rest)]
            decision = assert_rule(make, [*values, *rest], placements, N, 3, is_ruled=is_ruled)
            assert decision is None or decision.outputs == (PARTIAL,)


def test_an_operand_of_positions_that_depends_on_rows_gives_no_rows() -> None:
    """It is made whole first. The value that is cut is the same everywhere: so is the result."""
    value = data((2 * N,), REPLICATED)
    for placement in (PARTIAL, Sharded(0)):
        begin = integers(0).placed(placement)
        assert asked("Slice", [value, begin, integers(N)], [(N,)], N) is None
        inputs = [value, begin, integers(N), integers(1)]
        assert asked("StridedSlice", inputs, [(N,)], N, **NO_MASKS) is None
        shape = integers(2 * N).placed(placement)
        inputs = [shape, integers(0), integers(N), integers(1), data((N,), REPLICATED)]
        assert asked("StridedSliceGrad", inputs, [(2 * N,)], N, **NO_MASKS) is None
        assert asked("Pad", [value, begin], [(2 * N,)], N) is None
        assert asked("SplitV", [value, begin, number(0)], [(2 * N,)], N) is None
