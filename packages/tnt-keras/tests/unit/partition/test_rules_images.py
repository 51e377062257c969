"""Operations on batches of images: in replicas they give what they give whole."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_replicas import assert_rule
from rule_sweep import SIZES, decision, placements_of, raw, types_of
from step_replicas import assert_replicas, gathered
from test_rules_elementwise import QUANTIZED_BY_CHANNEL

from tnt_keras.partition.operations import definition
from tnt_keras.partition.rules import images
from tnt_keras.partition.value import REPLICATED, Placement, Shape, Sharded

EXAMPLES = max(settings().max_examples // 10, 1)
STEP = {"strides": [1] * 4, "padding": "SAME"}
STEP_3D = {"strides": [1] * 5, "padding": "SAME"}
DILATION = {**STEP, "rates": [1] * 4}
GIVEN = {"is_training": False}
GIVEN_FIRST = {**GIVEN, "data_format": "NCHW"}
STATISTICS = [f"FusedBatchNorm{part}{v}" for part in ("", "Grad") for v in ("", "V2", "V3")]

Array = np.ndarray[Any, Any]
Inputs = list[tuple[Shape, Placement]]


def whole_numbers(*shape: int) -> Array:
    """Small ones: all sums of products are exact."""
    return np.random.default_rng(0).integers(-3, 4, shape).astype(np.float32)


def fractions(*shape: int) -> Array:
    return np.random.default_rng(0).random(shape, np.float32)


def vector(*numbers: int) -> Array:
    return np.asarray(numbers, np.int32)


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of images, of the window or filter that is moved over them, and of its results."""

    batch: int
    height: int = 6
    width: int = 4
    channels: int = 3
    window: int = 2
    filters: int = 5

    @classmethod
    def all_equal(cls, size: int) -> Sizes:
        return cls(*[size] * 6)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch, self.height, self.width, self.channels

    @property
    def images(self) -> Array:
        return whole_numbers(*self.shape)

    @property
    def colored(self) -> Array:
        return fractions(*self.shape[:3], 3)

    @property
    def volumes(self) -> Array:
        return whole_numbers(*self.shape[:3], self.window, self.channels)

    @property
    def filter(self) -> Array:
        return whole_numbers(self.window, self.window, self.channels, self.filters)

    @property
    def filter_of_channels(self) -> Array:
        return whole_numbers(self.window, self.window, self.channels, 1)

    @property
    def filter_of_volumes(self) -> Array:
        return whole_numbers(self.window, 1, self.window, self.channels, self.filters)

    @property
    def results(self) -> Array:
        return whole_numbers(*self.shape[:3], self.filters)

    @property
    def results_of_volumes(self) -> Array:
        return whole_numbers(*self.shape[:3], self.window, self.filters)

    @property
    def windows(self) -> dict[str, Any]:
        return {"ksize": [1, self.window, self.window, 1], **STEP}

    @property
    def windows_of_volumes(self) -> dict[str, Any]:
        return {"ksize": [1, self.window, 1, self.window, 1], **STEP_3D}

    @property
    def pooled(self) -> Array:
        return np.asarray(tf.raw_ops.MaxPool(input=self.images, **self.windows))

    @property
    def pooled_volumes(self) -> Array:
        return np.asarray(tf.raw_ops.MaxPool3D(input=self.volumes, **self.windows_of_volumes))

    @property
    def channels_first(self) -> Array:
        return self.images.transpose(0, 3, 1, 2)

    @property
    def statistics(self) -> list[Array]:
        """Scale, offset, mean and variance of each channel."""
        return list(fractions(4, self.channels))

    @property
    def ones(self) -> list[Array]:
        """Scale, mean and variance of each channel of results, so that sums are nearly exact."""
        return list(np.ones([3, self.filters], np.float32))

    @property
    def ranges(self) -> tuple[Array, Array]:
        """The least and the greatest number of each channel."""
        return -fractions(self.channels), 2 + fractions(self.channels)

    @property
    def positions(self) -> Array:
        return np.asarray(tf.raw_ops.MaxPoolWithArgmax(input=self.images, **self.windows)[1])


@dataclasses.dataclass(frozen=True)
class Case:
    """An operation and its inputs, some of which have the batch on axis 0."""

    type: str
    batches: Sequence[int]
    inputs: Callable[[Sizes], list[Any]]
    attributes: Callable[[Sizes], Mapping[str, Any]] | Mapping[str, Any] = dataclasses.field(
        default_factory=dict
    )

    def make(self, sizes: Sizes) -> Callable[..., Any]:
        found = self.attributes(sizes) if callable(self.attributes) else self.attributes
        return raw(self.type, **found)


CASES = [
    Case("Conv2D", [0], lambda s: [s.images, s.filter], STEP),
    Case("Conv2DBackpropInput", [2], lambda s: [vector(*s.shape), s.filter, s.results], STEP),
    Case("Conv2DBackpropInput", [2], lambda s: [vector(*s.shape[1:3]), s.filter, s.results], STEP),
    Case(
        "Conv2DBackpropFilter",
        [0, 2],
        lambda s: [s.images, vector(*s.filter.shape), s.results],
        STEP,
    ),
    Case("DepthwiseConv2dNative", [0], lambda s: [s.images, s.filter_of_channels], STEP),
    Case(
        "DepthwiseConv2dNativeBackpropInput",
        [2],
        lambda s: [vector(*s.shape), s.filter_of_channels, s.images],
        STEP,
    ),
    Case(
        "DepthwiseConv2dNativeBackpropFilter",
        [0, 2],
        lambda s: [s.images, vector(*s.filter_of_channels.shape), s.images],
        STEP,
    ),
    Case("Conv3D", [0], lambda s: [s.volumes, s.filter_of_volumes], STEP_3D),
    Case(
        "Conv3DBackpropInputV2",
        [2],
        lambda s: [vector(*s.volumes.shape), s.filter_of_volumes, s.results_of_volumes],
        STEP_3D,
    ),
    Case(
        "Conv3DBackpropFilterV2",
        [0, 2],
        lambda s: [s.volumes, vector(*s.filter_of_volumes.shape), s.results_of_volumes],
        STEP_3D,
    ),
    Case("Conv", [0], lambda s: [s.images, s.filter], STEP),
    Case("Dilation2D", [0], lambda s: [s.images, s.filter[..., 0]], DILATION),
    Case(
        "Dilation2DBackpropInput",
        [0, 2],
        lambda s: [s.images, s.filter[..., 0], s.images],
        DILATION,
    ),
    Case(
        "Dilation2DBackpropFilter",
        [0, 2],
        lambda s: [s.images, s.filter[..., 0], s.images],
        DILATION,
    ),
    Case("MaxPool", [0], lambda s: [s.images], lambda s: s.windows),
    Case(
        "MaxPoolV2",
        [0],
        lambda s: [s.images, vector(1, s.window, s.window, 1), vector(1, 1, 1, 1)],
        {"padding": "VALID"},
    ),
    Case("MaxPool3D", [0], lambda s: [s.volumes], lambda s: s.windows_of_volumes),
    Case("AvgPool", [0], lambda s: [s.images], lambda s: s.windows),
    Case("AvgPool3D", [0], lambda s: [s.volumes], lambda s: s.windows_of_volumes),
    Case("AvgPoolGrad", [1], lambda s: [vector(*s.shape), s.images], lambda s: s.windows),
    Case(
        "AvgPool3DGrad",
        [1],
        lambda s: [vector(*s.volumes.shape), s.volumes],
        lambda s: s.windows_of_volumes,
    ),
    Case("MaxPoolGrad", [0, 1, 2], lambda s: [s.images, s.pooled, s.images], lambda s: s.windows),
    Case(
        "MaxPoolGradV2",
        [0, 1, 2],
        lambda s: [
            s.images,
            s.pooled,
            s.images,
            vector(1, s.window, s.window, 1),
            vector(1, 1, 1, 1),
        ],
        {"padding": "SAME"},
    ),
    Case(
        "MaxPool3DGrad",
        [0, 1, 2],
        lambda s: [s.volumes, s.pooled_volumes, s.volumes],
        lambda s: s.windows_of_volumes,
    ),
    Case(
        "MaxPoolGradGrad", [0, 1, 2], lambda s: [s.images, s.pooled, s.images], lambda s: s.windows
    ),
    Case(
        "MaxPoolGradGradV2",
        [0, 1, 2],
        lambda s: [
            s.images,
            s.pooled,
            s.images,
            vector(1, s.window, s.window, 1),
            vector(1, 1, 1, 1),
        ],
        {"padding": "SAME"},
    ),
    Case(
        "MaxPool3DGradGrad",
        [0, 1, 2],
        lambda s: [s.volumes, s.pooled_volumes, s.volumes],
        lambda s: s.windows_of_volumes,
    ),
    Case("MaxPoolWithArgmax", [0], lambda s: [s.images], lambda s: s.windows),
    Case(
        "MaxPoolGradWithArgmax",
        [0, 1, 2],
        lambda s: [s.images, s.images, s.positions],
        lambda s: s.windows,
    ),
    Case("SpaceToDepth", [0], lambda s: [s.images], lambda s: {"block_size": s.window}),
    Case(
        "DepthToSpace",
        [0],
        lambda s: [whole_numbers(*s.shape[:3], s.channels * s.window**2)],
        lambda s: {"block_size": s.window},
    ),
    Case(
        "ExtractImagePatches",
        [0],
        lambda s: [s.images],
        lambda s: {"ksizes": [1, s.window, s.window, 1], **DILATION},
    ),
    Case(
        "ExtractVolumePatches",
        [0],
        lambda s: [s.volumes],
        lambda s: {"ksizes": [1, s.window, 1, s.window, 1], **STEP_3D},
    ),
    Case("ResizeBilinear", [0], lambda s: [s.images, vector(s.filters, s.window)]),
    Case("ResizeNearestNeighbor", [0], lambda s: [s.images, vector(s.filters, s.window)]),
    Case("ResizeBicubic", [0], lambda s: [s.images, vector(s.filters, s.window)]),
    Case("ResizeArea", [0], lambda s: [s.images, vector(s.filters, s.window)]),
    Case("ResizeNearestNeighborGrad", [0], lambda s: [s.images, vector(s.filters, s.window)]),
    Case("ResizeBilinearGrad", [0, 1], lambda s: [s.images, s.images[:, :3]]),
    Case("ResizeBicubicGrad", [0, 1], lambda s: [s.images, s.images[:, :3]]),
    Case(
        "ScaleAndTranslate",
        [0],
        lambda s: [s.images, vector(s.filters, s.window), fractions(2), fractions(2)],
    ),
    Case(
        "ScaleAndTranslateGrad",
        [0, 1],
        lambda s: [s.images, s.images[:, :3], fractions(2), fractions(2)],
    ),
    Case("DrawBoundingBoxes", [0, 1], lambda s: [s.colored, fractions(s.batch, s.filters, 4)]),
    Case(
        "DrawBoundingBoxesV2",
        [0, 1],
        lambda s: [s.colored, fractions(s.batch, s.filters, 4), fractions(s.filters, 3)],
    ),
    Case(
        "CombinedNonMaxSuppression",
        [0, 1],
        lambda s: [
            fractions(s.batch, s.filters, 1, 4),
            fractions(s.batch, s.filters, s.channels),
            np.int32(2),
            np.int32(3),
            np.float32(0.5),
            np.float32(0.2),
        ],
    ),
    Case("RGBToHSV", [0], lambda s: [s.colored]),
    Case("HSVToRGB", [0], lambda s: [s.colored]),
    Case("AdjustHue", [0], lambda s: [s.colored, np.float32(0.3)]),
    Case("AdjustSaturation", [0], lambda s: [s.colored, np.float32(0.3)]),
    Case("AdjustContrastv2", [0], lambda s: [s.colored, np.float32(0.3)]),
    Case(
        "ImageProjectiveTransformV2",
        [0, 1],
        lambda s: [s.images, fractions(s.batch, 8), vector(s.window, s.filters)],
        {"interpolation": "BILINEAR"},
    ),
    Case(
        "ImageProjectiveTransformV3",
        [0],
        lambda s: [s.images, fractions(1, 8), vector(s.window, s.filters), np.float32(7)],
        {"interpolation": "NEAREST"},
    ),
    Case("FusedBatchNorm", [0], lambda s: [s.images, *s.statistics], GIVEN),
    Case("FusedBatchNormV2", [0], lambda s: [s.images, *s.statistics], GIVEN),
    Case("FusedBatchNormV3", [0], lambda s: [s.images, *s.statistics], GIVEN),
    Case("FusedBatchNormV3", [0], lambda s: [s.channels_first, *s.statistics], GIVEN_FIRST),
    Case("FusedBatchNormGrad", [0, 1], lambda s: [s.results, s.results, *s.ones], GIVEN),
    Case("FusedBatchNormGradV2", [0, 1], lambda s: [s.results, s.results, *s.ones], GIVEN),
    Case(
        "FusedBatchNormGradV3", [0, 1], lambda s: [s.results, s.results, *s.ones, s.ones[0]], GIVEN
    ),
    Case(
        "SpaceToBatchND",
        [0],
        lambda s: [s.images, vector(s.window, s.window), np.zeros([2, 2], np.int32)],
    ),
    Case(
        "BatchToSpaceND",
        [0],
        lambda s: [
            whole_numbers(s.window**2 * s.batch, *s.shape[1:]),
            vector(s.window, s.window),
            np.zeros([2, 2], np.int32),
        ],
    ),
    Case(
        "FakeQuantWithMinMaxVarsPerChannel",
        [0],
        lambda s: [s.images, *s.ranges],
    ),
    Case(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        [0, 1],
        lambda s: [s.images, s.images, *s.ranges],
    ),
]


def sizes_for(num_rows: int, blocks: int) -> Sizes:
    """All sizes are the number of rows, so that every accident is there, or all are different."""
    return Sizes(num_rows * blocks) if blocks else Sizes.all_equal(max(num_rows, 2))


def placements_for(array: Any, num_rows: int) -> st.SearchStrategy[Placement]:
    """Any placement, those along axis 0 more often."""
    found = placements_of(array, num_rows)
    first = [p for p in found if isinstance(p, Sharded) and p.axis == 0]
    return st.sampled_from(first or found) | st.sampled_from(found)


def name_of(value: Any) -> str | None:
    return value.type if isinstance(value, Case) else None


def test_each_operation_with_a_rule_is_tested() -> None:
    assert types_of(images) | QUANTIZED_BY_CHANNEL == {
        *(case.type for case in CASES),
        "MaxPoolGradGradWithArgmax",  # which has no kernel for CPUs
    }


@pytest.mark.parametrize("case", CASES, ids=name_of)
@settings(max_examples=EXAMPLES)
@given(st.data())
def test_replicas_give_the_whole_result_however_inputs_are_placed(case: Case, data: Any) -> None:
    num_rows, replicas = data.draw(st.sampled_from(SIZES))
    sizes = sizes_for(num_rows, data.draw(st.sampled_from([0, 1, 2, 4])))
    inputs = case.inputs(sizes)
    placements = [data.draw(placements_for(x, num_rows)) for x in inputs]
    assert_rule(case.make(sizes), inputs, placements, num_rows, replicas, is_ruled=None, rtol=1e-4)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_rows_along_an_axis_that_is_as_long_as_the_batch_are_no_batch(case: Case) -> None:
    sizes = Sizes.all_equal(3)
    inputs = case.inputs(sizes)
    for axis in range(1, np.ndim(inputs[case.batches[0]])):
        placements = [
            Sharded(axis)
            if i in case.batches and np.ndim(x) > axis and x.shape[axis] == 3
            else REPLICATED
            for i, x in enumerate(inputs)
        ]
        assert_rule(case.make(sizes), inputs, placements, 3, 2, is_ruled=None, rtol=1e-4)


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_rows_of_the_batch_stay_where_they_are(case: Case, outer: int) -> None:
    sizes = Sizes(batch=10)
    inputs = case.inputs(sizes)
    before = [
        blocks(case, outer, len(x) // 5) if i in case.batches else REPLICATED
        for i, x in enumerate(inputs)
    ]
    found = assert_rule(case.make(sizes), inputs, before, num_rows=5, replicas=3, rtol=1e-4)
    assert found is not None
    assert list(found.inputs) == before
    assert found.outputs[0] != REPLICATED


def blocks(case: Case, outer: int, multiple: int) -> Sharded:
    """Rows in so many whole batches; places of a block are whole batches, too."""
    outer = 4 * outer if case.type == "BatchToSpaceND" else outer
    return Sharded(0, outer, multiple // outer)


def test_a_filter_of_as_many_rows_as_the_batch_is_no_batch() -> None:
    sizes = Sizes.all_equal(4)
    inputs = [sizes.images, sizes.filter]
    convolution = raw("Conv2D", **STEP)
    assert_rule(convolution, inputs, [REPLICATED, Sharded(0)], 4, 2, is_ruled=False)
    found = assert_rule(convolution, inputs, [Sharded(0), Sharded(0)], 4, 2)
    assert found is not None
    assert found.inputs == (Sharded(0), REPLICATED)


@pytest.mark.parametrize("data_format", [b"NHWC", b"NCHW"])
def test_rows_are_neither_channels_nor_height(data_format: bytes) -> None:
    for axis in range(4):
        images_and_filter: Inputs = [((8, 8, 8, 8), Sharded(axis)), ((3, 3, 8, 8), REPLICATED)]
        found = decision("Conv2D", images_and_filter, [(8, 8, 8, 8)], data_format=data_format)
        assert (found is not None) == (axis == 0)


@pytest.mark.parametrize("name", sorted(types_of(images)))
def test_the_batch_comes_first_in_every_layout(name: str) -> None:
    layouts = {a.name: list(a.allowed_values.list.s) for a in definition(name).attr}
    assert all(f.startswith((b"N", b"CHANNELS_")) for f in layouts.get("data_format", []))


def test_height_and_width_that_equal_the_number_of_rows_are_not_counted() -> None:
    sizes = Sizes.all_equal(4)
    inputs = [vector(4, 4), sizes.filter, sizes.results]
    gradient = raw("Conv2DBackpropInput", **STEP)
    found = assert_rule(gradient, inputs, [REPLICATED, REPLICATED, Sharded(0)], 4, 2)
    assert found is not None
    assert found.counts_rows == {0: [False, False]}


def test_sizes_of_images_need_not_be_known() -> None:
    shapes: Inputs = [
        ((4,), REPLICATED),
        ((3, 3, 2, 5), REPLICATED),
        ((8, None, None, 5), Sharded(0, 2, 1)),
    ]
    found = decision("Conv2DBackpropInput", shapes, [(8, None, None, 2)])
    assert found is not None
    assert found.counts_rows == {0: [True, False, False, False]}
    assert decision("MaxPool", [((8, None, None, 2), Sharded(0))], [(8, None, None, 2)]) is not None
    of_any_size: Inputs = [((None, None, None, 2), Sharded(0, 1, None))]
    assert decision("MaxPool", of_any_size, [(None, None, None, 2)]) is not None


def test_without_the_number_of_sizes_there_is_no_telling_which_of_them_counts_rows() -> None:
    shapes: Inputs = [((None,), REPLICATED), ((3, 3, 2, 5), REPLICATED), ((8, 6, 6, 5), Sharded(0))]
    assert decision("Conv2DBackpropInput", shapes, [(8, None, None, 2)]) is None


def test_images_of_which_only_the_size_is_read_may_be_others() -> None:
    gradient, one_image = Sizes(8).images, Sizes(1).images[:, :3]
    placements: list[Placement] = [Sharded(0), REPLICATED]
    assert_rule(raw("ResizeBilinearGrad"), [gradient, one_image], placements, 8, 3, is_ruled=False)


def test_one_transform_for_eight_images_is_not_cut_and_eight_are() -> None:
    warp = raw("ImageProjectiveTransformV2", interpolation="NEAREST")
    for transforms, placement in [(fractions(1, 8), REPLICATED), (fractions(8, 8), Sharded(0))]:
        inputs = [Sizes(8).images, transforms, vector(3, 3)]
        found = assert_rule(warp, inputs, [Sharded(0), REPLICATED, REPLICATED], 8, 3)
        assert found is not None
        assert found.inputs[1] == placement


def test_an_unknown_number_of_transforms_is_not_guessed() -> None:
    shapes: Inputs = [((8, 6, 6, 3), Sharded(0)), ((None, 8), REPLICATED), ((2,), REPLICATED)]
    assert decision("ImageProjectiveTransformV2", shapes, [(8, 3, 3, 3)]) is None


def test_positions_that_are_counted_through_the_batch_are_not_cut() -> None:
    sizes = Sizes(6)
    attributes = {**sizes.windows, "include_batch_in_index": True}
    pool = raw("MaxPoolWithArgmax", **attributes)
    assert_rule(pool, [sizes.images], [Sharded(0)], 6, 2, is_ruled=False)
    positions = np.asarray(pool(sizes.images)[1])
    back = raw("MaxPoolGradWithArgmax", **attributes)
    inputs = [sizes.images, sizes.images, positions]
    assert_rule(back, inputs, [Sharded(0)] * 3, 6, 2, is_ruled=False)


@pytest.mark.parametrize("batch_dims", [0, 1, 2])
def test_a_convolution_without_a_batch_has_no_rows(batch_dims: int) -> None:
    shapes: Inputs = [((8, 8, 8, 8), Sharded(0)), ((3, 3, 8, 8), REPLICATED)]
    found = decision("Conv", shapes, [(8, 8, 8, 8)], batch_dims=batch_dims)
    assert (found is not None) == (batch_dims > 0)


def test_contrast_is_that_of_whole_images() -> None:
    pictures = fractions(2, 6, 6, 6, 3)
    for axis in range(1, 4):
        placements: list[Placement] = [Sharded(axis), REPLICATED]
        inputs = [pictures, np.float32(0.5)]
        assert_rule(raw("AdjustContrastv2"), inputs, placements, 6, 3, is_ruled=axis == 1)


def test_places_of_a_block_are_whole_batches_and_back() -> None:
    block, no_padding = vector(2, 2), np.zeros([2, 2], np.int32)
    for rows in [Sharded(0, 1, 2), Sharded(0, 2, 1)]:
        inputs = [Sizes(10).images, block, no_padding]
        placements: list[Placement] = [rows, REPLICATED, REPLICATED]
        found = assert_rule(raw("SpaceToBatchND"), inputs, placements, 5, 3)
        assert found is not None
        assert found.outputs == (Sharded(0, 4 * rows.outer, rows.inner),)
        inputs, placements = (
            [Sizes(40).images, block, no_padding],
            [*found.outputs, *placements[1:]],
        )
        found = assert_rule(raw("BatchToSpaceND"), inputs, placements, 5, 3)
        assert found is not None
        assert found.outputs == (rows,)


def test_a_batch_that_is_split_into_places_of_a_block_is_not_cut() -> None:
    inputs = [Sizes(20).images, vector(2, 2), np.zeros([2, 2], np.int32)]
    for rows in [Sharded(0, 1, 4), Sharded(0, 2, 2)]:
        placements: list[Placement] = [rows, REPLICATED, REPLICATED]
        assert_rule(raw("BatchToSpaceND"), inputs, placements, 5, 3, is_ruled=False)


def test_a_block_that_is_not_known_is_not_guessed() -> None:
    shapes: Inputs = [((8, 6, 6, 3), Sharded(0)), ((2,), REPLICATED), ((2, 2), REPLICATED)]
    assert decision("SpaceToBatchND", shapes, [(32, 3, 3, 3)]) is None


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_of_a_batch_need_all_rows_forward_and_backward(name: str) -> None:
    count = len(definition(name).input_arg)
    shapes: Inputs = [((8, 6, 6, 8), Sharded(0))] * 2 + [((8,), REPLICATED)] * (count - 2)
    outputs = [(8, 6, 6, 8)] * len(definition(name).output_arg)
    for is_training in [False, True]:
        found = decision(name, shapes, outputs, is_training=is_training)
        assert (found is None) == is_training


def test_no_images_are_gathered_in_a_step_whatever_their_height() -> None:
    filters, of_channels = Sizes(1).filter, Sizes(1).filter_of_channels

    def gradients(pictures: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([pictures, *(weights := [tf.constant(filters), tf.constant(of_channels)])])
            x = tf.nn.depthwise_conv2d(pictures, weights[1], [1, 1, 1, 1], "SAME", dilations=[2, 2])
            x = tf.nn.convolution(tf.nn.max_pool2d(x, 2, 1, "SAME"), weights[0], dilations=[2, 1])
            x = tf.image.resize(tf.nn.avg_pool2d(x, 2, 2, "SAME"), [3, 5])
            total = tf.reduce_sum(x * x)
        return tape.gradient(total, [pictures, *weights])

    batches = [[whole_numbers(7, height, 8, 3)] for height in (6, 9)]
    assert gathered(assert_replicas(gradients, batches[0], replicas=[1, 3], rtol=1e-4)) == []
    step = assert_replicas(gradients, *batches, replicas=[1, 3], unknown={0: [1]}, rtol=1e-4)
    assert gathered(step) == []


CHANNELS, RESULTS = 6, 4  # of a row, in groups of three channels: one image holds all rows


@pytest.mark.parametrize("outer", [1, 2])
@pytest.mark.parametrize("kind", ["Conv2D", "DepthwiseConv2dNative"])
def test_channels_of_rows_with_filters_of_their_own_are_cut_with_their_filters(
    kind: str, outer: int
) -> None:
    num_rows, blocks = 5, outer * 5
    images = whole_numbers(2, 6, 4, blocks * CHANNELS)
    if kind == "Conv2D":
        filters, results = whole_numbers(3, 2, 3, blocks * RESULTS), RESULTS
        of_filters = Sharded(3, outer, RESULTS)
    else:
        filters, results = whole_numbers(3, 2, blocks * CHANNELS, 2), 2 * CHANNELS
        of_filters = Sharded(2, outer, CHANNELS)
    derivative = whole_numbers(2, 6, 4, blocks * results)
    of_images, of_results = Sharded(3, outer, CHANNELS), Sharded(3, outer, results)
    backwards = f"{kind}Backprop"
    for name, inputs, placements, output in (
        (kind, [images, filters], [of_images, of_filters], of_results),
        (
            f"{backwards}Input",
            [vector(*images.shape), filters, derivative],
            [REPLICATED, of_filters, of_results],
            of_images,
        ),
        (
            f"{backwards}Filter",
            [images, vector(*filters.shape), derivative],
            [of_images, REPLICATED, of_results],
            of_filters,
        ),
    ):
        found = assert_rule(raw(name, **STEP), inputs, placements, num_rows, replicas=3)
        assert found is not None
        assert found.outputs == (output,)


def test_a_group_of_channels_of_several_rows_is_not_cut() -> None:
    images, filters = whole_numbers(1, 6, 4, 4 * 3), whole_numbers(3, 2, 6, 4)
    placements: list[Placement] = [Sharded(3, 1, 3), Sharded(3)]
    assert_rule(raw("Conv2D", **STEP), [images, filters], placements, 4, 2, is_ruled=False)
