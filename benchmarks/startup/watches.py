"""A layer and a callback that notice where the training is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras

from benchmarks.startup.points import FIRST_STEP, Points

FATAL_BATCH = 20


class TraceWatch(keras.layers.Layer):
    """Changes nothing, and notices that its model is traced in training, or saved."""

    def __init__(self, points: Points, **settings: Any) -> None:
        super().__init__(**settings)
        self._points = points

    def call(self, inputs: Any) -> Any:
        if self._points.is_training:
            self._points.reach("tracing")
        return inputs

    def get_config(self) -> dict[str, Any]:
        if self._points.is_training:
            self._points.reach("save")
        return dict(super().get_config())


class StepWatch(keras.callbacks.Callback):
    """Notices the steps, and saves the model at the end of each epoch."""

    def __init__(self, points: Points, path: Path | None) -> None:
        super().__init__()
        self._points, self._path = points, path

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._points.is_training = True

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch == 0:
            self._points.reach(FIRST_STEP)
        if batch == FATAL_BATCH:
            self._points.reach("training")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self._path is not None:
            self.model.save(self._path)
