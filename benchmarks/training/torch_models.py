"""The models of `benchmarks.keras_models` in PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from benchmarks.keras_models import CNN_WIDTHS, HEAD_WIDTH, NUM_CLASSES, VOCABULARY, Sizes

RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Width and number of blocks of each stage."""
EXPANSION = 4


def make_cnn(sizes: Sizes) -> nn.Module:
    """Images have the channels first, as PyTorch wants them."""
    layers: list[nn.Module] = []
    channels = 3
    for stage in CNN_WIDTHS:
        for width in stage:
            layers += [nn.Conv2d(channels, width, 3, padding="same"), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, *_classifier(channels))


class Bottleneck(nn.Module):
    """Three convolutions beside a shortcut; the first one has the stride, as in Keras."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        outer = EXPANSION * width
        self.block = nn.Sequential(
            *_normalized(channels, width, 1, stride),
            nn.ReLU(),
            *_normalized(width, width, 3, 1),
            nn.ReLU(),
            *_normalized(width, outer, 1, 1),
        )
        self.shortcut: nn.Module = nn.Identity()
        if channels != outer:
            self.shortcut = nn.Sequential(*_normalized(channels, outer, 1, stride))

    def forward(self, inputs: Any) -> Any:
        return torch.relu(self.block(inputs) + self.shortcut(inputs))


def make_resnet50(sizes: Sizes) -> nn.Module:
    layers = [*_normalized(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    channels = 64
    for index, (width, num_blocks) in enumerate(RESNET50_STAGES):
        for block in range(num_blocks):
            layers.append(Bottleneck(channels, width, 2 if index and not block else 1))
            channels = EXPANSION * width
    return nn.Sequential(*layers, *_classifier(channels))


class Encoder(nn.Module):
    """An encoder whose vectors are averaged and classified."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        width = sizes.width
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.rand(sizes.tokens, width))
        layer = nn.TransformerEncoderLayer(
            width, max(1, width // HEAD_WIDTH), 4 * width, activation="gelu", batch_first=True
        )
        self.layers = nn.TransformerEncoder(layer, sizes.layers, enable_nested_tensor=False)
        self.classes = nn.Linear(width, NUM_CLASSES)

    def forward(self, tokens: Any) -> Any:
        return self.classes(self.layers(self.embedding(tokens) + self.positions).mean(1))


def _normalized(inputs: int, outputs: int, size: int, stride: int) -> Sequence[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(outputs)


def _classifier(channels: int) -> Sequence[nn.Module]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, NUM_CLASSES)


MODELS = {"cnn": make_cnn, "resnet50": make_resnet50, "transformer": Encoder}
