"""Leave a `fit` in order, on all ranks at the same step, when a scheduler asks for the end."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.process import training_requests


class Leaving(keras.callbacks.Callback):
    """End the program where ranks have agreed on it; it comes after that which writes a backup.

    Ends of an epoch are not those of its validation, in which nobody leaves: a backup holds no
    state in the middle of it.
    """

    def __init__(self, backup: str | None) -> None:
        """`backup` is the folder in which a backup has been written before, if there is one."""
        super().__init__()
        self._backup = backup
        self._epoch = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Leave before the first step. Local; all ranks do the same."""
        self._leave_if_asked("before its first step")

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Remember the epoch. Local."""
        self._epoch = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Leave after a step. Local; all ranks do the same."""
        self._leave_if_asked(f"in epoch {self._epoch}, after step {batch + 1}")

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Leave after an epoch. Local; all ranks do the same."""
        self._leave_if_asked(f"after epoch {self._epoch}")

    def _leave_if_asked(self, where: str) -> None:
        if training_requests.asked_by():
            training_requests.leave(where, self._backup)
