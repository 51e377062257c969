"""Convolution, pooling and other operations on batches of images.

The batch is axis 0 in every layout that these operations have: channels come last or second.
"""

from __future__ import annotations

import dataclasses

from tnt_keras.partition.rules.labels import batchwise, beside, cut_inputs, rows_of_batch
from tnt_keras.partition.rules.registry import Decision, Operation, flags, rule
from tnt_keras.partition.value import PARTIAL, REPLICATED, Placement, Sharded, Sizes, Unknown, known


def _batchwise(types: str, *batches: int, total: tuple[Placement, ...] = ()) -> None:
    """Enter operations that take some inputs image by image; others are parameters."""
    rule(types)(lambda operation: batchwise(operation, batches, *total))


_batchwise("Dilation2D MaxPool MaxPoolV2 MaxPool3D AvgPool AvgPool3D", 0)
_batchwise("SpaceToDepth DepthToSpace ExtractImagePatches ExtractVolumePatches", 0)
_batchwise("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate", 0)
_batchwise("ResizeNearestNeighborGrad", 0)
_batchwise("ResizeBilinearGrad ResizeBicubicGrad ScaleAndTranslateGrad", 0, 1)
_batchwise("DrawBoundingBoxes DrawBoundingBoxesV2 CombinedNonMaxSuppression", 0, 1)
_batchwise("MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2", 0, 1, 2)
_batchwise("MaxPool3DGrad MaxPool3DGradGrad", 0, 1, 2)
# Images and gradients; between them is the filter.
_batchwise("Dilation2DBackpropInput", 0, 2)
_batchwise("Dilation2DBackpropFilter", 0, 2, total=(PARTIAL,))

# Colors are along the last axis; contrasts are against the mean over an image, the last three.
rule("RGBToHSV HSVToRGB AdjustHue AdjustSaturation")(lambda op: beside(op, [-1]))
rule("AdjustContrastv2")(lambda op: beside(op, [-3, -2, -1]))


@rule("Conv")
def _images_with_batch(operation: Operation) -> Decision | None:
    """Refuse images without a batch, whose axis 0 is their height."""
    return batchwise(operation, [0]) if operation.attributes["batch_dims"] else None


@rule("MaxPoolWithArgmax MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax")
def _positions(operation: Operation) -> Decision | None:
    """Refuse positions that are counted through the whole batch."""
    if operation.attributes["include_batch_in_index"]:
        return None
    return batchwise(operation, range(len(operation.inputs)))


@rule("Conv2D Conv3D DepthwiseConv2dNative")
def _convolution(operation: Operation) -> Decision | None:
    """Cut images, or channels that have filters of their own."""
    return batchwise(operation, [0]) or _with_own_filters(operation, output=2)


@rule("Conv2DBackpropInput Conv3DBackpropInputV2", replicated=[0])
@rule("DepthwiseConv2dNativeBackpropInput", replicated=[0])
def _gradient_of_images(operation: Operation) -> Decision | None:
    return _images_of_sizes(operation) or _with_own_filters(operation, output=0)


@rule("AvgPoolGrad AvgPool3DGrad", replicated=[0])
def _images_of_sizes(operation: Operation) -> Decision | None:
    """Cut gradients, which come last. The shape of the images comes first, or height and width."""
    decision = batchwise(operation, [len(operation.inputs) - 1])
    num_sizes, shape = operation.inputs[0].num_elements, operation.inputs[-1].shape
    if decision is None or num_sizes is None or shape is None:
        return None
    counts_rows = [num_sizes == len(shape), *[False] * (num_sizes - 1)]
    return dataclasses.replace(decision, counts_rows={0: counts_rows})


@rule("Conv2DBackpropFilter Conv3DBackpropFilterV2", replicated=[1])
@rule("DepthwiseConv2dNativeBackpropFilter", replicated=[1])
def _gradient_of_filter(operation: Operation) -> Decision | None:
    """Add up over images and gradients, between which is the shape of the filter."""
    return batchwise(operation, [0, 2], PARTIAL) or _with_own_filters(operation, output=1)


def _with_own_filters(operation: Operation, output: int) -> Decision | None:
    """Place a convolution in groups, with filters for each row of the batch, or a derivative of it.

    Where a network makes filters for each sample, batch and channels are merged: one image holds
    the channels of all rows, and each group of channels belongs to one row. So rows are along the
    channels of images (0) and results (2), and along an axis of the filters (1). In a derivative,
    the sizes of its `output` stand in the place of that.
    """
    shapes = [value.shape for value in operation.inputs][:2]
    shapes[output : output + 1] = [operation.outputs[0].shape]
    images, filters = known(shapes[0]), known(shapes[1])
    if output == 0 and operation.inputs[0].num_elements != len(images):
        return None
    placed = _rows_of_own_filters(operation, images, filters)
    inputs: list[Placement] = [REPLICATED if i == output else rows for i, rows in enumerate(placed)]
    if any(operation.inputs[i].placement != inputs[i] for i in operation.with_rows()):
        return None
    counts = {} if output == 2 else {output: flags(len(known(shapes[output])), placed[output].axis)}
    return Decision(tuple(inputs[: len(operation.inputs)]), (placed[output],), counts)


def _rows_of_own_filters(
    operation: Operation, images: Sizes, filters: Sizes
) -> tuple[Sharded, Sharded, Sharded]:
    """Return where rows are, unless a group of channels would belong to several of them."""
    axis = 1 if operation.attributes["data_format"].startswith(b"NC") else len(images) - 1
    channels, depth, num_results = map(known, (images[axis], *filters[-2:]))
    first = operation.inputs[operation.with_rows()[0]].rows
    num_groups = first.outer * operation.num_rows
    is_depthwise = operation.type.startswith("Depthwise")
    filter_axis = len(filters) - (2 if is_depthwise else 1)
    if is_depthwise:
        depth, num_results = 1, channels * num_results
    if channels % (num_groups * depth) or num_results % num_groups:
        raise Unknown
    inner, results = channels // num_groups, num_results // num_groups
    return (
        Sharded(axis, first.outer, inner),
        Sharded(filter_axis, first.outer, inner if is_depthwise else results),
        Sharded(axis, first.outer, results),
    )


@rule("ImageProjectiveTransformV2 ImageProjectiveTransformV3", replicated=[2, 3])
def _projection(operation: Operation) -> Decision | None:
    """Cut transforms with the images, unless there is one for all."""
    [num_transforms, *_] = operation.inputs[1].known_shape or (None,)
    return batchwise(operation, [0] if known(num_transforms) == 1 else [0, 1])


@rule("SpaceToBatchND", replicated=[1, 2])
def _space_to_batch(operation: Operation) -> Decision | None:
    """Make a whole batch of each place in a block, one after the other."""
    rows, num_places = known(rows_of_batch(operation, [0])), _places_in_block(operation)
    return cut_inputs(operation, [0], rows, Sharded(0, num_places * rows.outer, rows.inner))


@rule("BatchToSpaceND", replicated=[1, 2])
def _batch_to_space(operation: Operation) -> Decision | None:
    """Make a place in a block of each whole batch."""
    rows, num_places = known(rows_of_batch(operation, [0])), _places_in_block(operation)
    blocks, rest = divmod(rows.outer, num_places)
    return None if rest else cut_inputs(operation, [0], rows, Sharded(0, blocks, rows.inner))


def _places_in_block(operation: Operation) -> int:
    return int(known(operation.inputs[1].constant).prod())


@rule("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3")
def _batch_norm(operation: Operation) -> Decision | None:
    """Refuse to compute statistics, which depend on all rows; given ones are also returned."""
    if operation.attributes["is_training"]:
        return None
    rows, num_others = known(rows_of_batch(operation, [0])), len(operation.outputs) - 1
    return cut_inputs(operation, [0], rows, rows, *[REPLICATED] * num_others)


@rule("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3")
def _batch_norm_gradient(operation: Operation) -> Decision | None:
    """Add up what is for scale and offset; the last two outputs are empty."""
    if operation.attributes["is_training"]:
        return None
    rows = known(rows_of_batch(operation, [0, 1]))
    outputs = (rows, PARTIAL, PARTIAL, REPLICATED, REPLICATED)
    return cut_inputs(operation, [0, 1], rows, *outputs)
