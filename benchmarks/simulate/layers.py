"""Layers of well-known models: the gradients they give, and when backpropagation has them.

A layer's share of the backward pass is its share of all multiplications. Sizes of gradients are
those of `benchmarks.allreduce.gradient_sets`, where that has the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.allreduce import gradient_sets

# Of a step of one rank: forward pass, backward pass (two of the three products of matrices of a
# layer), update of the variables. Usual shares; not measured.
UPDATE_SHARE = 0.03
BACKWARD_SHARE = 2 / 3

INPUT_PIXELS = 224


@dataclass(frozen=True)
class Layer:
    """Gradients that are ready together, and multiplications of one sample or token."""

    num_elements: tuple[int, ...]
    flops: float
    head_flops: float = 0  # those that are differentiated before all layers


@dataclass(frozen=True)
class Gradients:
    """Elements of each gradient, in the order of the variables, and when it is ready."""

    num_elements: Sequence[int]
    ready_share: Sequence[float]  # of the time of a step

    @property
    def num_bytes(self) -> int:
        """All together, as float32."""
        return 4 * sum(self.num_elements)


def gradients_of(model: str) -> Gradients:
    """When a step of one rank has which gradient. Pure."""
    layers = list(LAYERS[model]())
    total = sum(layer.flops + layer.head_flops for layer in layers)
    per_flop = (1 - UPDATE_SHARE) * BACKWARD_SHARE / total
    done = (1 - UPDATE_SHARE) * (1 - BACKWARD_SHARE)
    done += per_flop * sum(layer.head_flops for layer in layers)
    ready: list[list[float]] = []
    for layer in reversed(layers):
        done += per_flop * layer.flops
        ready.insert(0, [done] * len(layer.num_elements))
    sizes = [size for layer in layers for size in layer.num_elements]
    return Gradients(sizes, [each for times in ready for each in times])


def _convolution(
    kernel: int, channels: int, filters: int, pixels: float, *, extra: Sequence[int]
) -> Layer:
    """`pixels`: of the output; `extra`: elements of bias or normalisation."""
    elements = kernel * channels * filters
    return Layer((elements, *extra), elements * pixels)


def _dense(inputs: int, outputs: int) -> Layer:
    return Layer((inputs * outputs, outputs), inputs * outputs)


def _resnet(stages: Sequence[tuple[int, int]]) -> Iterator[Layer]:
    """Convolutions with scale and offset; the shortcut's comes last in its block."""
    width = INPUT_PIXELS // 2
    yield _convolution(49, 3, 64, width**2, extra=(64, 64))
    width //= 2
    channels = 64
    for stage, (num_blocks, filters) in enumerate(stages):
        for block in range(num_blocks):
            widened = filters * gradient_sets.RESNET_EXPANSION
            before, after = width**2, (width // 2 if stage and block == 0 else width) ** 2
            yield _convolution(1, channels, filters, before, extra=(filters, filters))
            yield _convolution(9, filters, filters, after, extra=(filters, filters))
            yield _convolution(1, filters, widened, after, extra=(widened, widened))
            if block == 0:
                yield _convolution(1, channels, widened, after, extra=(widened, widened))
                width = round(after**0.5)
            channels = widened
    yield _dense(channels, gradient_sets.NUM_CLASSES)


def _resnet50() -> Iterator[Layer]:
    yield from _resnet(gradient_sets.RESNET_STAGES)


def _resnet101() -> Iterator[Layer]:
    yield from _resnet(((3, 64), (4, 128), (23, 256), (3, 512)))


def _vgg16() -> Iterator[Layer]:
    """https://arxiv.org/abs/1409.1556, table 1, column D."""
    width, channels = INPUT_PIXELS, 3
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            yield _convolution(9, channels, filters, width**2, extra=(filters,))
            channels = filters
        width //= 2
    yield _dense(width**2 * channels, 4096)
    yield _dense(4096, 4096)
    yield _dense(4096, gradient_sets.NUM_CLASSES)


def _inception3() -> Iterator[Layer]:
    """https://arxiv.org/abs/1512.00567, as in the TensorFlow benchmarks, without the side head."""

    def chain(channels: int, width: int, *convolutions: tuple[int, int]) -> Iterator[Layer]:
        for kernel, filters in convolutions:
            yield _convolution(kernel, channels, filters, width**2, extra=(filters,))
            channels = filters

    yield from chain(3, 149, (9, 32))
    yield from chain(32, 147, (9, 32), (9, 64))
    yield from chain(64, 73, (1, 80))
    yield from chain(80, 71, (9, 192))
    for channels, pooled in ((192, 32), (256, 64), (288, 64)):
        yield from chain(channels, 35, (1, 64))
        yield from chain(channels, 35, (1, 48), (25, 64))
        yield from chain(channels, 35, (1, 64), (9, 96), (9, 96))
        yield from chain(channels, 35, (1, pooled))
    yield from chain(288, 17, (9, 384))
    yield from chain(288, 35, (1, 64), (9, 96))
    yield from chain(96, 17, (9, 96))
    for inner in (128, 160, 160, 192):
        yield from chain(768, 17, (1, 192))
        yield from chain(768, 17, (1, inner), (7, inner), (7, 192))
        yield from chain(768, 17, (1, inner), *[(7, inner)] * 3, (7, 192))
        yield from chain(768, 17, (1, 192))
    yield from chain(768, 17, (1, 192))
    yield from chain(192, 8, (9, 320))
    yield from chain(768, 17, (1, 192), (7, 192), (7, 192))
    yield from chain(192, 8, (9, 192))
    for channels in (1280, 2048):
        yield from chain(channels, 8, (1, 320))
        yield from chain(channels, 8, (1, 384), (3, 384))
        yield from chain(384, 8, (3, 384))
        yield from chain(channels, 8, (1, 448), (9, 384), (3, 384))
        yield from chain(384, 8, (3, 384))
        yield from chain(channels, 8, (1, 192))
    yield _dense(2048, gradient_sets.NUM_CLASSES)


def _transformer_big() -> Iterator[Layer]:
    """Each matrix is a layer.

    The embedding is the head too, whose time is at the begin of the backward pass; but its gradient
    is complete, and so ready, when the lookup has been differentiated, at the end.
    """
    embedding, *others = gradient_sets.transformer_big()
    yield Layer((embedding,), 0, head_flops=embedding)
    for elements in others:
        is_matrix = elements > gradient_sets.TRANSFORMER_INNER
        yield Layer((elements,), elements if is_matrix else 0)


LAYERS: dict[str, Callable[[], Iterator[Layer]]] = {
    "resnet50": _resnet50,
    "resnet101": _resnet101,
    "vgg16": _vgg16,
    "inception3": _inception3,
    "transformer_big": _transformer_big,
}
