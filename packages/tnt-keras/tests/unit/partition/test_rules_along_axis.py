"""Operations along an axis: rows lie beside it, or all are needed."""

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

EXAMPLES = settings().max_examples * 3 // 10

# How many of the last axes each works on, and what it needs beside its value.
LAST: dict[str, tuple[int, list[Any]]] = {
    "Softmax": (1, []),
    "LogSoftmax": (1, []),
    "TopKV2": (1, [np.int32(2)]),
    "FFT": (1, []),
    "IFFT": (1, []),
    "RFFT": (1, [np.asarray([2], np.int32)]),
    "IRFFT": (1, [np.asarray([2], np.int32)]),
    "FFT2D": (2, []),
    "IFFT2D": (2, []),
    "RFFT2D": (2, [np.asarray([3, 2], np.int32)]),
    "IRFFT2D": (2, [np.asarray([3, 2], np.int32)]),
    "FFT3D": (3, []),
    "IFFT3D": (3, []),
    "RFFT3D": (3, [np.asarray([3, 3, 2], np.int32)]),
    "IRFFT3D": (3, [np.asarray([3, 3, 2], np.int32)]),
}
GIVEN: dict[str, list[Any]] = {
    "Cumsum": [np.int32(1)],
    "Cumprod": [np.int32(-2)],
    "CumulativeLogsumexp": [np.int32(1)],
    "Roll": [np.asarray([1, 2], np.int32), np.asarray([1, -1], np.int32)],
    "ReverseV2": [np.asarray([-1, 1], np.int32)],
    "Reverse": [np.asarray([False, True, True])],
}
OTHERS = [
    "LRN",
    "LRNGrad",
    "LowerBound",
    "NthElement",
    "ReverseSequence",
    "SoftmaxCrossEntropyWithLogits",
    "SparseSoftmaxCrossEntropyWithLogits",
    "UpperBound",
]
TYPES = {*LAST, *GIVEN, *OTHERS}
IS_COMPLEX = {"FFT", "IFFT", "IRFFT", "FFT2D", "IFFT2D", "IRFFT2D", "FFT3D", "IFFT3D", "IRFFT3D"}


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape).astype(np.float32)


def value_for(name: str, *shape: int) -> Any:
    return floats(*shape).astype(np.complex64 if name in IS_COMPLEX else np.float32)


@pytest.mark.parametrize("name", LAST)
def test_rows_lie_before_the_last_axes(name: str) -> None:
    axes, operands = LAST[name]
    make = raw(name)
    value = value_for(name, *[3] * max(axes, 2))
    replicated = range(1, 1 + len(operands))
    sweep(make, [value, *operands], 3, 2, replicated=replicated)
    batch = value_for(name, 6, *[3] * axes)
    for placed, made in sweep(make, [batch, *operands], 3, 2, replicated=replicated):
        match placed[0]:
            case Sharded(axis) as rows:
                assert (made is not None) == (axis == 0)
                assert made is None or set(made.outputs) == {rows}
            case _:
                assert made is None


@pytest.mark.parametrize("name", GIVEN)
def test_rows_lie_beside_the_axes_that_are_given(name: str) -> None:
    operands = GIVEN[name]
    value = value_for(name, 3, 3, 3)
    replicated = range(1, 1 + len(operands))
    found = sweep(raw(name), [value, *operands], 3, 2, replicated=replicated)
    ruled = {placed[0] for placed, made in found if made is not None}
    along = {0, 2} if name.startswith("Cum") else {0}
    assert {p for p in ruled if isinstance(p, Sharded)} == {Sharded(axis) for axis in along}


@settings(max_examples=EXAMPLES)
@given(data=st.data(), size=st.sampled_from(SIZES))
@pytest.mark.parametrize("name", ["Cumsum", "Cumprod", "CumulativeLogsumexp", "Roll", "ReverseV2"])
def test_any_axis(name: str, data: st.DataObject, size: tuple[int, int]) -> None:
    num_rows, replicas = size
    sizes = st.sampled_from([1, 2, num_rows, 2 * num_rows])
    value = floats(*data.draw(st.lists(sizes, min_size=1, max_size=3)))
    axis = np.int32(data.draw(st.integers(-value.ndim, value.ndim - 1)))
    operands: list[Any] = (
        [[axis]] if name == "ReverseV2" else [1, axis] if name == "Roll" else [axis]
    )
    attributes = {}
    if name.startswith("Cum"):
        attributes = {n: data.draw(st.booleans()) for n in ("exclusive", "reverse")}
    placement = data.draw(st.sampled_from(placements_of(value, num_rows)))
    assert_rule(
        raw(name, **attributes),
        [value, *(np.asarray(o, np.int32) for o in operands)],
        [placement, *[REPLICATED] * len(operands)],
        num_rows,
        replicas,
        is_ruled=None,
    )


@pytest.mark.parametrize("name", ["ReverseV2", "RFFT2D"])
def test_operands_with_as_many_entries_as_rows_are_the_same_in_all_replicas(name: str) -> None:
    arrays = [floats(2, 2, 2, 2), np.asarray([1, 2], np.int32)]
    for placed, made in sweep(raw(name), arrays, 2, 2):
        assert made is None or made.inputs == (placed[0], REPLICATED)


@pytest.mark.parametrize("name", ["Cumsum", "ReverseV2", "Roll"])
def test_axes_that_are_not_known_are_not_guessed(name: str) -> None:
    arrays = [floats(3, 3, 3), *GIVEN[name]]
    placements: list[Placement] = [Sharded(0), *[REPLICATED] * len(GIVEN[name])]
    unknown = [False] * len(arrays)
    assert_rule(raw(name), arrays, placements, 3, 2, is_ruled=False, constants=unknown)


def test_a_reversed_total_is_one() -> None:
    for axis in ([0], [1], []):
        arrays = [floats(3, 2), np.asarray(axis, np.int32)]
        found = assert_rule(raw("ReverseV2"), arrays, [PARTIAL, REPLICATED], 3, 2)
        assert found is not None
        assert found.outputs == (PARTIAL,)


def test_a_softmax_is_of_the_total_itself() -> None:
    assert_rule(tf.nn.softmax, [floats(3, 3)], [PARTIAL], 3, 2, is_ruled=False)


@pytest.mark.parametrize(("along", "batch"), [(1, 0), (0, 1), (2, 0)])
def test_sequences_are_reversed_with_their_lengths(along: int, batch: int) -> None:
    value, lengths = floats(3, 3, 3), np.asarray([3, 1, 2], np.int64)
    found = dict(
        sweep(raw("ReverseSequence", seq_dim=along, batch_dim=batch), [value, lengths], 3, 2)
    )
    for placed in (
        (Sharded(batch), Sharded(0)),
        (Sharded(batch), REPLICATED),
        (REPLICATED, Sharded(0)),
    ):
        made = found[placed]
        assert made is not None
        assert made.inputs == (Sharded(batch), Sharded(0))
    assert found[Sharded(along), Sharded(0)] is not None


def test_normalization_over_channels_leaves_rows_in_place() -> None:
    value = floats(3, 2, 3, 3)
    for name, count in [("LRN", 1), ("LRNGrad", 3)]:
        found = sweep(raw(name), [value] * count, 3, 2, replicated=range(2, count))
        assert all(made for placed, made in found if placed[0] == Sharded(0))


@pytest.mark.parametrize("labels", [(3, 3), (1, 3), (3, 1)])
def test_cross_entropy_is_of_each_row(labels: tuple[int, int]) -> None:
    make = raw("SoftmaxCrossEntropyWithLogits")
    found = dict(sweep(make, [floats(3, 3), floats(*labels)], 3, 2))
    made = found[Sharded(0), Sharded(0) if labels[0] == 3 else REPLICATED]
    assert made is not None
    assert made.outputs == (Sharded(0), Sharded(0))


def test_cross_entropy_is_not_cut_along_classes() -> None:
    make = raw("SoftmaxCrossEntropyWithLogits")
    arrays = [floats(3, 3), floats(3, 3)]
    assert_rule(make, arrays, [Sharded(1), Sharded(1)], 3, 2, is_ruled=False)


def test_cross_entropy_with_numbers_of_classes_is_of_each_row() -> None:
    arrays = [floats(3, 3), np.asarray([0, 2, 1], np.int32)]
    found = dict(sweep(raw("SparseSoftmaxCrossEntropyWithLogits"), arrays, 3, 2))
    made = found[Sharded(0), Sharded(0)]
    assert made is not None
    assert made.outputs == (Sharded(0), Sharded(0))
    assert found[Sharded(1), REPLICATED] is None


def test_the_nth_element_is_of_each_row() -> None:
    arrays = [floats(3, 3), np.int32(1)]
    found = dict(sweep(raw("NthElement"), arrays, 3, 2, replicated=[1]))
    assert found[Sharded(0), REPLICATED] is not None
    assert found[Sharded(1), REPLICATED] is None


@pytest.mark.parametrize("name", ["LowerBound", "UpperBound"])
def test_places_are_looked_for_in_the_same_row(name: str) -> None:
    numbers = np.sort(floats(3, 3), axis=1)
    found = dict(sweep(raw(name), [numbers, floats(3, 6)], 3, 2))
    assert found[Sharded(0), Sharded(0)] is not None
    of_all = dict(sweep(raw(name), [numbers[:1], floats(1, 6)], 3, 2))
    made = of_all[REPLICATED, Sharded(1, 2)]
    assert made is not None
    assert made.outputs == (Sharded(1, 2),)


@pytest.mark.parametrize(
    ("name", "outputs"), [("Softmax", 1), ("TopKV2", 2), ("Cumsum", 1), ("ReverseV2", 1)]
)
def test_other_axes_may_be_of_unknown_size(name: str, outputs: int) -> None:
    inputs: list[tuple[Shape, Placement]] = [((4, None, None), Sharded(0))]
    if name != "Softmax":
        inputs.append(((1,), REPLICATED))
    found = decision(name, inputs, [(4, None, None)] * outputs, constants={1: [-1]})
    assert found is not None
    assert found.outputs == (Sharded(0),) * outputs


def test_the_number_of_axes_must_be_known() -> None:
    assert decision("Softmax", [(None, Sharded(0))], [None]) is None
