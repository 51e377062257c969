"""Trainings that tests run on ranks and compare."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from models.image_classification import train_imagenet_main
from models.image_classification.flags import parse_arguments
from models.shared.distribution import Distribution
from models.shared.kill_after import KillAfter


def train_and_report(argv: Sequence[str]) -> tuple[dict[str, list[float]], list[np.ndarray]]:
    """Train, and return the history and the weights. Collective.

    Args:
        argv: Flags of the trainer.
    """
    try:
        history = train_imagenet_main.train(parse_arguments(argv))
        return history.history, history.model.get_weights()
    finally:
        keras.utils.clear_session()
        import tensorflow as tf

        tf.random.set_seed(None)


def train_until_killed(argv: Sequence[str], num_steps: int) -> None:
    """Train, and be killed. Collective.

    Args:
        argv: Flags of the trainer.
        num_steps: After which all ranks are killed.
    """
    make_callbacks = train_imagenet_main.make_callbacks

    def with_killer(arguments: argparse.Namespace, distribution: Distribution) -> list[Any]:
        return [*make_callbacks(arguments, distribution), KillAfter(num_steps)]

    train_imagenet_main.make_callbacks = with_killer
    train_imagenet_main.train(parse_arguments(argv))
