"""Simulated quantization with a range for each channel."""

from __future__ import annotations

from tnt_keras.partition.placement import PARTIAL
from tnt_keras.partition.rules.axis_labels import along_one_label, known_shapes
from tnt_keras.partition.rules.batches import along_leading_axes
from tnt_keras.partition.rules.registry import Decision, Operation, rule


@rule("FakeQuantWithMinMaxVarsPerChannel")
def _quantization(operation: Operation) -> Decision | None:
    """Cut any axis but that of the channels, the last one."""
    return along_leading_axes(operation, 1)


@rule("FakeQuantWithMinMaxVarsPerChannelGradient")
def _gradient_of_quantization(operation: Operation) -> Decision | None:
    """Add up the derivatives for the ends of the ranges."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    axes = [*range(len(shapes[0]) - 1), None]
    return along_one_label(operation, [axes, axes, [None], [None]], [axes, PARTIAL, PARTIAL])
