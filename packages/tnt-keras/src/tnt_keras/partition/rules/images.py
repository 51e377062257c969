"""Convolution, pooling and other operations on batches of images.

The batch is axis 0 in every layout that these operations have: channels come last or second.
"""

from __future__ import annotations

import dataclasses

from tnt_keras.partition.placement import PARTIAL, REPLICATED, Placement, Rows
from tnt_keras.partition.rules.batches import (
    along_leading_axes,
    batchwise,
    placements,
    rows_of_batch,
    total_over_batch,
)
from tnt_keras.partition.rules.own_filters import (
    filters_of_own_filters,
    images_of_own_filters,
    results_of_own_filters,
)
from tnt_keras.partition.rules.registry import Decision, Operation, rule


@rule("Conv2D Conv3D DepthwiseConv2dNative")
def _convolution(operation: Operation) -> Decision | None:
    """Cut images, or channels that have filters of their own."""
    return batchwise(operation, [0]) or results_of_own_filters(operation)


@rule("Dilation2D")
@rule("MaxPool MaxPoolV2 MaxPool3D AvgPool AvgPool3D")
@rule("SpaceToDepth DepthToSpace ExtractImagePatches ExtractVolumePatches")
@rule("ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ScaleAndTranslate")
@rule("ResizeNearestNeighborGrad")
def _images(operation: Operation) -> Decision | None:
    """Cut images; whatever follows are parameters: filters, sizes, scales."""
    return batchwise(operation, [0])


@rule("Conv")
def _images_with_batch(operation: Operation) -> Decision | None:
    """Refuse images without a batch, whose axis 0 is their height."""
    return batchwise(operation, [0]) if operation.attributes["batch_dims"] else None


@rule("ResizeBilinearGrad ResizeBicubicGrad ScaleAndTranslateGrad")
@rule("DrawBoundingBoxes DrawBoundingBoxesV2 CombinedNonMaxSuppression")
def _two_batches(operation: Operation) -> Decision | None:
    """Cut gradients and images, or images and boxes, or boxes and scores; then come parameters."""
    return batchwise(operation, [0, 1])


@rule("MaxPoolGrad MaxPoolGradV2 MaxPoolGradGrad MaxPoolGradGradV2")
@rule("MaxPool3DGrad MaxPool3DGradGrad")
def _three_batches(operation: Operation) -> Decision | None:
    """Cut images, pooled images and gradients; then come sizes of windows."""
    return batchwise(operation, [0, 1, 2])


@rule("MaxPoolWithArgmax MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax")
def _positions(operation: Operation) -> Decision | None:
    """Refuse positions that are counted through the whole batch."""
    if operation.attributes["include_batch_in_index"]:
        return None
    return batchwise(operation, range(len(operation.inputs)))


@rule("Conv2DBackpropInput Conv3DBackpropInputV2", replicated=[0])
@rule("DepthwiseConv2dNativeBackpropInput", replicated=[0])
def _gradient_of_images(operation: Operation) -> Decision | None:
    return _images_of_sizes(operation) or images_of_own_filters(operation)


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
    return total_over_batch(operation, [0, 2]) or filters_of_own_filters(operation)


@rule("Dilation2DBackpropFilter")
def _gradient_of_dilation_filter(operation: Operation) -> Decision | None:
    """Add up over images and gradients; between them is the filter."""
    return total_over_batch(operation, [0, 2])


@rule("Dilation2DBackpropInput")
def _gradient_of_dilation(operation: Operation) -> Decision | None:
    """Cut images and gradients; between them is the filter."""
    return batchwise(operation, [0, 2])


@rule("RGBToHSV HSVToRGB AdjustHue AdjustSaturation")
def _pixels(operation: Operation) -> Decision | None:
    """Change colors, which are along the last axis."""
    return along_leading_axes(operation, 1)


@rule("AdjustContrastv2")
def _contrast(operation: Operation) -> Decision | None:
    """Change colors against their means over an image, the last three axes."""
    return along_leading_axes(operation, 3)


@rule("ImageProjectiveTransformV2 ImageProjectiveTransformV3", replicated=[2, 3])
def _projection(operation: Operation) -> Decision | None:
    """Cut transforms with the images, unless there is one for all."""
    transforms = operation.inputs[1].shape
    if not transforms or transforms[0] is None:
        return None
    return batchwise(operation, [0] if transforms[0] == 1 else [0, 1])


@rule("SpaceToBatchND", replicated=[1, 2])
def _space_to_batch(operation: Operation) -> Decision | None:
    """Make a whole batch of each place in a block, one after the other."""
    rows, num_places = rows_of_batch(operation, [0]), _places_in_block(operation)
    if rows is None or num_places is None:
        return None
    result = Rows(0, num_places * rows.outer, rows.inner)
    return Decision(placements(operation, [0], rows), (result,))


@rule("BatchToSpaceND", replicated=[1, 2])
def _batch_to_space(operation: Operation) -> Decision | None:
    """Make a place in a block of each whole batch."""
    rows, num_places = rows_of_batch(operation, [0]), _places_in_block(operation)
    if rows is None or num_places is None or rows.outer % num_places:
        return None
    result = Rows(0, rows.outer // num_places, rows.inner)
    return Decision(placements(operation, [0], rows), (result,))


@rule("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3")
def _batch_norm(operation: Operation) -> Decision | None:
    """Refuse to compute statistics, which depend on all rows; given ones are also returned."""
    rows = rows_of_batch(operation, [0])
    if rows is None or operation.attributes["is_training"]:
        return None
    statistics: list[Placement] = [REPLICATED] * (len(operation.outputs) - 1)
    return Decision(placements(operation, [0], rows), (rows, *statistics))


@rule("FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3")
def _batch_norm_gradient(operation: Operation) -> Decision | None:
    """Add up what is for scale and offset; the last two outputs are empty."""
    rows = rows_of_batch(operation, [0, 1])
    if rows is None or operation.attributes["is_training"]:
        return None
    outputs = (rows, PARTIAL, PARTIAL, REPLICATED, REPLICATED)
    return Decision(placements(operation, [0, 1], rows), outputs)


def _places_in_block(operation: Operation) -> int | None:
    block = operation.inputs[1].constant
    return None if block is None else int(block.prod())
