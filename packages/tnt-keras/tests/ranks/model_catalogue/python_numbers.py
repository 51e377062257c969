"""Eager steps that keep numbers in attributes of Python, or draw random ones there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network


def _eager(kind: type[OwnStep]) -> Training:
    model = kind(network(), mean_squared_error)
    model.compile("sgd", run_eagerly=True)
    return model, data.of_arrays(data.features(), data.targets())


class MovingBaseline(OwnStep):
    """Subtracts a moving mean of the targets, which it keeps in an attribute."""

    baseline = 0.0

    def train_step(self, data: Any) -> Any:
        x, y = data
        self.baseline = 0.5 * self.baseline + 0.5 * float(tf.reduce_mean(y))
        return super().train_step((x, y - self.baseline))


@wrong()
def moving_baseline_in_an_attribute() -> Training:
    return _eager(MovingBaseline)


class LastLoss(OwnStep):
    """Remembers the loss of the batch, which a callback may read."""

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        self.last_loss = float(loss)
        return super().logs(x, y, loss)


@wrong()
def loss_kept_in_an_attribute() -> Training:
    return _eager(LastLoss)


class CountedSteps(OwnStep):
    """Counts its steps in an attribute, and lets the weight of a penalty grow with them."""

    num_steps = 0

    def train_step(self, data: Any) -> Any:
        self.num_steps += 1
        return super().train_step(data)

    def changed(self, gradients: list[Any]) -> list[Any]:
        return [gradient * (1.0 - 0.1 / self.num_steps) for gradient in gradients]


@right()
def steps_counted_in_an_attribute() -> Training:
    return _eager(CountedSteps)


class NoiseOfNumpy(OwnStep):
    """Adds noise to the features, of the global generator of numpy."""

    def noise(self, shape: tuple[int, ...]) -> Any:
        return np.random.normal(size=shape).astype("float32")

    def train_step(self, data: Any) -> Any:
        x, y = data
        return super().train_step((x + 0.3 * self.noise(tuple(x.shape)), y))


@wrong()
def noise_of_numpy() -> Training:
    return _eager(NoiseOfNumpy)


class NoiseOfPython(NoiseOfNumpy):
    """Draws it of the global generator of Python."""

    def noise(self, shape: tuple[int, ...]) -> Any:
        rows, columns = shape
        drawn = [[random.gauss(0.0, 1.0) for _ in range(columns)] for _ in range(rows)]
        return np.asarray(drawn, "float32")


@wrong()
def noise_of_python() -> Training:
    return _eager(NoiseOfPython)


class StrengthOfNumpy(OwnStep):
    """Draws one number for the batch, and averages each sample with its neighbour."""

    def train_step(self, data: Any) -> Any:
        x, y = data
        strength = np.random.uniform(0.4, 0.6)
        return super().train_step((strength * x + (1 - strength) * tf.roll(x, 1, 0), y))


@wrong()
def neighbours_mixed_by_a_number_of_numpy() -> Training:
    return _eager(StrengthOfNumpy)
