"""Models that the probe is tried on: wrong by construction on several ranks, and right ones."""

from . import (
    added_losses,
    batch_quotients,
    compiled,
    embeddings,
    generative,
    later,
    layer_state,
    logs,
    metrics,
    optimizers,
    relations,
    sequence,
    vision,
)
from .case import CASES, Case
from .training import Result, joined, train_and_compare

__all__ = [
    "CASES",
    "Case",
    "Result",
    "joined",
    "train_and_compare",
    "added_losses",
    "batch_quotients",
    "compiled",
    "embeddings",
    "generative",
    "later",
    "layer_state",
    "logs",
    "metrics",
    "optimizers",
    "relations",
    "sequence",
    "vision",
]
