"""Small trainings of the kinds that keras.io shows, each as users write it."""

from . import (
    audio,
    generative,
    graphs,
    guides,
    recommendation,
    reinforcement,
    structured_data,
    text,
    time_series,
    vision,
)
from .registry import EXAMPLES, Example
from .running import train_and_compare

__all__ = [
    "EXAMPLES",
    "Example",
    "train_and_compare",
    "audio",
    "generative",
    "graphs",
    "guides",
    "recommendation",
    "reinforcement",
    "structured_data",
    "text",
    "time_series",
    "vision",
]
