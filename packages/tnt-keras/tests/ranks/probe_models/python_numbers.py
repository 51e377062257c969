"""Eager steps that keep numbers in attributes of Python."""

from __future__ import annotations

from typing import Any

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


@wrong("refused")
def moving_baseline_in_an_attribute() -> Training:
    return _eager(MovingBaseline)


class LastLoss(OwnStep):
    """Remembers the loss of the batch, which a callback may read."""

    def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
        self.last_loss = float(loss)
        return super().logs(x, y, loss)


@wrong("refused")
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
