"""Sizes of the gradients of well-known models, derived from their architecture."""

# Only the numbers of elements matter for communication, so no framework is needed here.

from __future__ import annotations

from collections.abc import Iterator

RESNET_STAGES = ((3, 64), (4, 128), (6, 256), (3, 512))  # blocks and width of each stage
RESNET_EXPANSION = 4  # the last convolution of a block widens by this factor
NUM_CLASSES = 1000

TRANSFORMER_WIDTH = 1024
TRANSFORMER_INNER = 4096
TRANSFORMER_LAYERS = 6  # of the encoder, and again of the decoder
TRANSFORMER_VOCABULARY = 33708  # subword units of English to German, shared by both languages


def resnet50() -> list[int]:
    """Elements of each of the 161 trainable tensors of ResNet-50, first layer first. Pure."""
    # The architecture of https://arxiv.org/abs/1512.03385, table 1: 53 convolutions without bias,
    # each followed by a batch normalisation with scale and offset, and one dense layer.
    return list(_resnet50())


def _resnet50() -> Iterator[int]:
    yield from _convolution(7, 3, 64)
    channels = 64
    for num_blocks, width in RESNET_STAGES:
        for block in range(num_blocks):
            yield from _convolution(1, channels, width)
            yield from _convolution(3, width, width)
            yield from _convolution(1, width, width * RESNET_EXPANSION)
            if block == 0:  # the shortcut changes its width here
                yield from _convolution(1, channels, width * RESNET_EXPANSION)
            channels = width * RESNET_EXPANSION
    yield channels * NUM_CLASSES
    yield NUM_CLASSES


def _convolution(kernel: int, channels: int, filters: int) -> Iterator[int]:
    """A kernel, then scale and offset of its batch normalisation."""
    yield kernel * kernel * channels * filters
    yield filters
    yield filters


def transformer_big() -> list[int]:
    """Elements of each trainable tensor of Transformer big, about 210 million in total. Pure."""
    # The architecture of https://arxiv.org/abs/1706.03762, table 3, last row: six layers each, one
    # embedding that encoder, decoder and output share, projections of attention without bias.
    return list(_transformer_big())


def _transformer_big() -> Iterator[int]:
    yield TRANSFORMER_VOCABULARY * TRANSFORMER_WIDTH
    for num_attentions in (1, 2):  # a decoder layer attends to itself and to the encoder
        for _ in range(TRANSFORMER_LAYERS):
            for _ in range(num_attentions):
                yield from _layer_norm()
                for _ in ("query", "key", "value", "output"):
                    yield TRANSFORMER_WIDTH * TRANSFORMER_WIDTH
            yield from _layer_norm()
            yield TRANSFORMER_WIDTH * TRANSFORMER_INNER
            yield TRANSFORMER_INNER
            yield TRANSFORMER_INNER * TRANSFORMER_WIDTH
            yield TRANSFORMER_WIDTH
        yield from _layer_norm()  # of the output of the encoder, or decoder


def _layer_norm() -> Iterator[int]:
    yield TRANSFORMER_WIDTH
    yield TRANSFORMER_WIDTH
