"""Check that the data of all ranks end after the same step."""

from __future__ import annotations

from typing import Any

import keras

from tnt_keras.step.data_check import DataCheck


class EndOfData(keras.callbacks.Callback):
    """Check that the data of all ranks end after the same step, where ranks compare their data.

    `DataCheck` is the half inside of steps: a rank that has a batch says so at the beginning of its
    step and learns whether the others have. This callback is the other half: a rank that has no
    more batch, and therefore begins no step, says so here instead. Both are one exchange, so that
    neither rank waits for ever, and both raise unless all ranks say the same.
    """

    def __init__(
        self,
        data_check: DataCheck,
        *,
        training: bool = False,
        testing: bool = False,
        predicting: bool = False,
    ) -> None:
        super().__init__()
        self._data_check = data_check
        self._training, self._testing, self._predicting = training, testing, predicting
        self._is_training = False

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Note that training steps follow. Local."""
        self._is_training = self._training

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """End the training steps of an epoch, if validation follows. Collective."""
        self._end_training()

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """End the training steps of an epoch. Collective."""
        self._end_training()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the steps of an evaluation. Collective."""
        if self._testing:
            self._data_check.end()

    def on_predict_end(self, logs: dict[str, Any] | None = None) -> None:
        """End the steps of a prediction. Collective."""
        if self._predicting:
            self._data_check.end()

    def _end_training(self) -> None:
        if self._is_training:
            self._is_training = False
            self._data_check.end()
