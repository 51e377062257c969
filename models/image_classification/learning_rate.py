"""Learning rates over the steps of a training: a linear warm-up, then a decay.

Both schedules are continuous where the warm-up ends. (The original Tarantella's exponential decay
counted from step 0 there, so that after five epochs of warm-up its rate fell at once by 6 %, to
0.97^(5 / 2.4) = 0.939 of what it had reached.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

SAMPLES_OF_BASE_RATE = 256
"""Batch size that a base learning rate is for, https://arxiv.org/abs/1706.02677."""
DECAY_EPOCHS = 2.4
DECAY_RATE = 0.97
BOUNDARY_EPOCHS = (30, 60, 80)
MULTIPLIERS = (1.0, 0.1, 0.01, 0.001)


@keras.saving.register_keras_serializable(package="tarantella_models")
class ExpDecayWithWarmupSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up to a peak, then exponential decay.

        peak = warmup_rate * initial_learning_rate
        lr(step) = peak * step / warmup_steps                                  step < warmup_steps
        lr(step) = peak * decay_rate ^ ((step - warmup_steps) / decay_steps)   otherwise

    Args:
        initial_learning_rate: Reached at the end of the warm-up, if `warmup_rate` is 1.
        warmup_steps: At least 0; 0: no warm-up.
        decay_steps: Steps in which the rate is multiplied by `decay_rate`, > 0.
        decay_rate: Usually less than 1.
        warmup_rate: Share of the initial rate that the warm-up reaches.
        staircase: Whether the exponent is rounded down, so that the rate falls in steps.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        warmup_steps: int,
        decay_steps: float,
        decay_rate: float = DECAY_RATE,
        warmup_rate: float = 1.0,
        staircase: bool = False,
    ) -> None:
        super().__init__()
        if warmup_steps < 0 or decay_steps <= 0:
            raise ValueError(
                "`warmup_steps` must be at least 0 and `decay_steps` greater than 0. Received: "
                f"warmup_steps={warmup_steps}, decay_steps={decay_steps}."
            )
        self.initial_learning_rate = initial_learning_rate
        self.warmup_steps = warmup_steps
        self.decay_steps = decay_steps
        self.decay_rate = decay_rate
        self.warmup_rate = warmup_rate
        self.staircase = staircase

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, counted from 0. Pure."""
        peak = self.warmup_rate * self.initial_learning_rate
        step = ops.cast(step, "float32")
        exponent = ops.maximum(step - self.warmup_steps, 0.0) / self.decay_steps
        if self.staircase:
            exponent = ops.floor(exponent)
        decayed = peak * ops.power(ops.cast(self.decay_rate, "float32"), exponent)
        warming = peak * step / max(self.warmup_steps, 1)
        return ops.where(step < self.warmup_steps, warming, decayed)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments. Pure."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "warmup_steps": self.warmup_steps,
            "decay_steps": self.decay_steps,
            "decay_rate": self.decay_rate,
            "warmup_rate": self.warmup_rate,
            "staircase": self.staircase,
        }


@keras.saving.register_keras_serializable(package="tarantella_models")
class PiecewiseConstantDecayWithWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """A linear warm-up, then rates that are constant between boundaries (Goyal et al. 2017).

        lr(step) = initial_learning_rate * step / warmup_steps      step < warmup_steps
        lr(step) = initial_learning_rate * multipliers[k]           otherwise,

    where k is the number of boundaries that are not greater than the step.

    Args:
        initial_learning_rate: Reached at the end of the warm-up.
        warmup_steps: At least 0, and not after the first boundary.
        boundaries: Steps, ascending, at which the rate changes.
        multipliers: One more than boundaries.
    """

    def __init__(
        self,
        initial_learning_rate: float,
        warmup_steps: int,
        boundaries: Sequence[int],
        multipliers: Sequence[float] = MULTIPLIERS,
    ) -> None:
        super().__init__()
        if len(multipliers) != len(boundaries) + 1:
            raise ValueError(
                "`multipliers` must be one more than `boundaries`. Received: "
                f"{len(multipliers)} multipliers and {len(boundaries)} boundaries."
            )
        if list(boundaries) != sorted(boundaries) or not 0 <= warmup_steps <= min(
            [*boundaries, float("inf")]
        ):
            raise ValueError(
                "`boundaries` must ascend, and the warm-up end before the first one. Received: "
                f"boundaries={list(boundaries)}, warmup_steps={warmup_steps}."
            )
        self.initial_learning_rate = initial_learning_rate
        self.warmup_steps = warmup_steps
        self.boundaries = list(boundaries)
        self.multipliers = list(multipliers)

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, counted from 0. Pure."""
        step = ops.cast(step, "float32")
        rate = ops.cast(self.initial_learning_rate * self.multipliers[0], "float32")
        for boundary, multiplier in zip(self.boundaries, self.multipliers[1:], strict=True):
            rate = ops.where(step < boundary, rate, self.initial_learning_rate * multiplier)
        warming = self.initial_learning_rate * step / max(self.warmup_steps, 1)
        return ops.where(step < self.warmup_steps, warming, rate)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments. Pure."""
        return {
            "initial_learning_rate": self.initial_learning_rate,
            "warmup_steps": self.warmup_steps,
            "boundaries": self.boundaries,
            "multipliers": self.multipliers,
        }


def scaled_rate(base: float, scaling: str, batch_size: int, num_ranks: int) -> float:
    """Return the initial learning rate. Pure.

    Args:
        base: For 256 samples, or for one rank.
        scaling: `batch`: base * batch_size / 256, so that the number of ranks changes nothing;
            `ranks`: base * num_ranks.
        batch_size: Samples of a step, of all ranks together.
        num_ranks: Of the job.
    """
    factor = {"batch": batch_size / SAMPLES_OF_BASE_RATE, "ranks": float(num_ranks)}[scaling]
    return base * factor


def make_schedule(
    name: str, initial_rate: float, steps_per_epoch: int, warmup_epochs: float
) -> keras.optimizers.schedules.LearningRateSchedule:
    """Return a schedule with the published lengths, in epochs. Pure.

    Args:
        name: `exp_decay`: times 0.97 every 2.4 epochs; `piecewise`: a tenth after 30, 60 and 80.
        initial_rate: At the end of the warm-up.
        steps_per_epoch: At least 1.
        warmup_epochs: At least 0.
    """
    warmup_steps = round(warmup_epochs * steps_per_epoch)
    if name == "exp_decay":
        decay_steps = DECAY_EPOCHS * steps_per_epoch
        return ExpDecayWithWarmupSchedule(initial_rate, warmup_steps, decay_steps)
    boundaries = [epoch * steps_per_epoch for epoch in BOUNDARY_EPOCHS]
    return PiecewiseConstantDecayWithWarmup(initial_rate, warmup_steps, boundaries)
