"""The learning rate: it rises for some steps, then falls with the root of the step."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable("tnt_models")
class WarmupInverseSquareRoot(keras.optimizers.schedules.LearningRateSchedule):
    r"""The schedule of the Transformer.

    lr(t) = factor * hidden_size^-0.5 * min(1, t / W) / sqrt(max(t, W))

    with W warm-up steps (https://arxiv.org/abs/1706.03762, equation 3). It does not depend on the
    number of ranks, which share the batch of a step.

    Args:
        factor: Of the whole.
        hidden_size: Of the model.
        warmup_steps: W, at least 1.
    """

    def __init__(self, factor: float, hidden_size: int, warmup_steps: int) -> None:
        super().__init__()
        if warmup_steps < 1:
            raise ValueError(f"The schedule needs at least 1 warm-up step, not {warmup_steps}.")
        self.factor = factor
        self.hidden_size = hidden_size
        self.warmup_steps = warmup_steps

    def __call__(self, step: Any) -> Any:
        """Return the rate of a step, a scalar of float32.

        Args:
            step: Updates done before, a scalar.
        """
        step = ops.cast(step, "float32")
        warmup = ops.cast(self.warmup_steps, "float32")
        peak = self.factor * self.hidden_size**-0.5
        return peak * ops.minimum(1.0, step / warmup) / ops.sqrt(ops.maximum(step, warmup))

    def get_config(self) -> dict[str, Any]:
        """Return the arguments, for saving."""
        return {
            "factor": self.factor,
            "hidden_size": self.hidden_size,
            "warmup_steps": self.warmup_steps,
        }
