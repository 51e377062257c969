"""Dying in the middle of a training, for tests of backups."""

from __future__ import annotations

import os
import signal
from typing import Any

import keras


class KillAfter(keras.callbacks.Callback):
    """End this process as a failing machine does, after some steps.

    Args:
        num_steps: Steps that are made before.
    """

    def __init__(self, num_steps: int) -> None:
        super().__init__()
        self._left = num_steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count a step. Local."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
