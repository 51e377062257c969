"""Mark epochs and steps in the timeline that `TNT_TIMELINE` asks for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tnt_comm import timeline

STEPS = {"train": "training step", "test": "test step", "predict": "prediction step"}
"""What a step is called, by the name that Keras' hooks have for it."""


class TimelineMarks(keras.callbacks.Callback):
    """Show epochs and steps as slices of the timeline. Only used if there is one.

    A step is what Keras does between two calls of the callbacks: it fetches a batch and computes
    one step, or several with `steps_per_execution`.
    """


def _marking(mark: Callable[[str], None], name: str) -> Callable[..., None]:
    def hook(self: TimelineMarks, number: int, logs: Any = None) -> None:
        mark(name)

    return hook


for _part, _name in {"epoch": "epoch", **{f"{k}_batch": v for k, v in STEPS.items()}}.items():
    setattr(TimelineMarks, f"on_{_part}_begin", _marking(timeline.begin, _name))
    setattr(TimelineMarks, f"on_{_part}_end", _marking(timeline.end, _name))
