"""Tell how much of the time of steps was communication, and mark steps in the timeline."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import keras

import tnt_comm
from tnt_comm import timeline
from tnt_keras.process.output import logger


class CommunicationReport(keras.callbacks.Callback):
    """Measure the steps of a `fit` and log the share of communication at its end, at INFO.

        communication 8.1 % of step, 92 % hidden

    Of all training steps of this rank together,

        share of communication = communication time / step time
        hidden share           = 1 - waiting time / communication time.

    The *step time* is that between Keras' calls at the begin and end of a batch: fetching it, the
    step itself, and what callbacks do at its end. *Communication time* is that in which at least
    one exchange was under way, from when this rank handed over a bucket until its sum was complete,
    so it includes waiting for ranks that are behind. *Waiting time* is that in which a thread of
    this rank waited. See `tnt_comm.Counters`. It must be the last callback, so that what others
    communicate counts too.
    """

    def __init__(self) -> None:
        super().__init__()
        self._step_s = 0.0
        self._total = tnt_comm.Counters()
        self._begin: tuple[float, tnt_comm.Counters] | None = None

    @staticmethod
    def is_wanted() -> bool:
        """Return whether the line would be shown by this rank. Local."""
        return logger.isEnabledFor(logging.INFO)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Start the clock of a step. Local."""
        self._begin = (time.perf_counter(), tnt_comm.counters())

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Add the time of the step to the totals. Local."""
        if self._begin is not None:
            begin_s, before = self._begin
            self._step_s += time.perf_counter() - begin_s
            self._total += tnt_comm.counters() - before
            self._begin = None

    def on_train_end(self, logs: dict[str, Any] | None = None) -> None:
        """Log the line. Local."""
        if self._step_s > 0:
            logger.info("%s", describe(self._step_s, self._total))


def describe(step_s: float, total: tnt_comm.Counters) -> str:
    """Return the line for a step time > 0, in seconds. Pure."""
    return (
        f"communication {100 * total.communication_s / step_s:.1f} % of step, "
        f"{100 * total.hidden_share:.0f} % hidden"
    )


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
