"""The callbacks by which a backup takes part in `fit`: one before all others, one after them."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.model.backup.fit_backup import FitBackup


class Restore(keras.callbacks.Callback):
    """Let the other callbacks see the variables of the backup when the training begins.

    Args:
        backup: Of the `fit`.
    """

    def __init__(self, backup: FitBackup) -> None:
        super().__init__()
        self._backup = backup

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore the variables. Local."""
        self._backup.restore_variables()


class BackUp(keras.callbacks.Callback):
    """Back up what a step or epoch has left behind, after all other callbacks have run.

    Args:
        backup: Of the `fit`.
    """

    def __init__(self, backup: FitBackup) -> None:
        super().__init__()
        self._backup = backup
        self._num_test_executions = 0

    def on_train_begin(self, logs: Any = None) -> None:
        """Restore everything, whatever the other callbacks have set. Local."""
        self._backup.begin_training()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Restore the middle of an epoch. Local."""
        self._backup.begin_epoch()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count steps, and back up if it is due. Collective."""
        self._backup.end_execution(logs)

    def on_test_begin(self, logs: Any = None) -> None:
        """Begin to count the steps of a validation. Local."""
        self._num_test_executions = 0

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count steps of the validation. Local."""
        self._num_test_executions += 1

    def on_test_end(self, logs: Any = None) -> None:
        """Count the validation. Local."""
        self._backup.progress.validated.append(self._num_test_executions)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Count the epoch, and back up if it is due. Collective."""
        self._backup.end_epoch(epoch)

    def on_train_end(self, logs: Any = None) -> None:
        """Delete the backups of a training that is over. Collective."""
        self._backup.end_training()
