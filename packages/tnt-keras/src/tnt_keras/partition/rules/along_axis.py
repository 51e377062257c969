"""Operations along an axis, in which the elements of that axis depend on each other."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tnt_keras.partition.placement import PARTIAL, REPLICATED
from tnt_keras.partition.rules.axis_labels import along_one_label, broadcast_labels, known_shapes
from tnt_keras.partition.rules.registry import Decision, Operation, is_total, rule


@rule("Softmax LogSoftmax TopKV2 FFT IFFT RFFT IRFFT", replicated=[1])
def _along_last(operation: Operation) -> Decision | None:
    return _beside(operation, [-1])


@rule("FFT2D IFFT2D RFFT2D IRFFT2D", replicated=[1])
def _along_last_two(operation: Operation) -> Decision | None:
    return _beside(operation, [-1, -2])


@rule("FFT3D IFFT3D RFFT3D IRFFT3D", replicated=[1])
def _along_last_three(operation: Operation) -> Decision | None:
    return _beside(operation, [-1, -2, -3])


@rule("Roll", replicated=[1, 2])
@rule("Cumsum Cumprod CumulativeLogsumexp", replicated=[1])
def _along_given(operation: Operation) -> Decision | None:
    """Take the axes from the last input."""
    axes = operation.inputs[-1].constant
    return None if axes is None else _beside(operation, np.ravel(axes))


@rule("Reverse ReverseV2", replicated=[1], linear=[0])
def _reversal(operation: Operation) -> Decision | None:
    """Take axes by their numbers, or as one bool for each."""
    value, axes = operation.inputs
    if is_total(value):
        return Decision((PARTIAL, REPLICATED), (PARTIAL,))
    if axes.constant is None:
        return None
    is_mask = axes.constant.dtype == np.bool_
    return _beside(operation, np.flatnonzero(axes.constant) if is_mask else axes.constant)


def _beside(operation: Operation, axes: Iterable[int]) -> Decision | None:
    """Return the decision for rows along no given axis, of the first input and all outputs."""
    shape = operation.inputs[0].shape
    if shape is None:
        return None
    rank = len(shape)
    taken = {int(axis) % rank for axis in axes}
    labels = [None if axis in taken else axis for axis in range(rank)]
    operands: list[list[int | None]] = [[] for _ in operation.inputs[1:]]
    return along_one_label(operation, [labels, *operands], [labels] * len(operation.outputs))


@rule("ReverseSequence")
def _reversal_of_sequences(operation: Operation) -> Decision | None:
    """Cut the lengths as the batch."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    rank = len(shapes[0])
    along, batch = (operation.attributes[name] % rank for name in ("seq_dim", "batch_dim"))
    labels = [None if axis == along else axis for axis in range(rank)]
    return along_one_label(operation, [labels, [batch]], [labels])


@rule("SoftmaxCrossEntropyWithLogits")
def _cross_entropy(operation: Operation) -> Decision | None:
    """Broadcast logits and probabilities."""
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    rows = [[*broadcast_labels(shape[:1]), None] for shape in shapes]
    return along_one_label(operation, rows, [[-1], [-1, None]])


@rule("SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy_of_labels(operation: Operation) -> Decision | None:
    """Cut the numbers of the classes as the logits."""
    return along_one_label(operation, [[0, None], [0]], [[0], [0, None]])


@rule("LRN LRNGrad")
def _normalization_of_channels(operation: Operation) -> Decision | None:
    axes = [0, 1, 2, None]
    return along_one_label(operation, [axes] * len(operation.inputs), [axes])


@rule("NthElement")
def _nth_element(operation: Operation) -> Decision | None:
    shapes = known_shapes(operation)
    if shapes is None:
        return None
    axes = range(len(shapes[0]) - 1)
    return along_one_label(operation, [[*axes, None], []], [axes])


@rule("LowerBound UpperBound")
def _places_in_sorted(operation: Operation) -> Decision | None:
    """Cut the sorted numbers of each row as its values."""
    return along_one_label(operation, [[0, None], [0, 1]], [[0, 1]])
