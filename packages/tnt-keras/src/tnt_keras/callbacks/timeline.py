"""Mark epochs and steps in the timeline that `TNT_TIMELINE` asks for."""

from __future__ import annotations

from typing import Any

import keras

from tnt_comm import timeline

EPOCH = "epoch"
TRAINING_STEP = "training step"
TEST_STEP = "test step"
PREDICTION_STEP = "prediction step"


class TimelineMarks(keras.callbacks.Callback):
    """Show epochs and steps as slices of the timeline. Only used if there is one.

    A step is what Keras does between two calls of the callbacks: it fetches a batch and computes
    one step, or several with `steps_per_execution`.
    """

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin a slice. Local."""
        timeline.begin(EPOCH)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """End the slice. Local."""
        timeline.end(EPOCH)

    def on_train_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin a slice. Local."""
        timeline.begin(TRAINING_STEP)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """End the slice. Local."""
        timeline.end(TRAINING_STEP)

    def on_test_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin a slice. Local."""
        timeline.begin(TEST_STEP)

    def on_test_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """End the slice. Local."""
        timeline.end(TEST_STEP)

    def on_predict_batch_begin(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Begin a slice. Local."""
        timeline.begin(PREDICTION_STEP)

    def on_predict_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """End the slice. Local."""
        timeline.end(PREDICTION_STEP)
