"""A logger that has wrapped Keras' `fit`, as MLflow's autolog does; run as a module of `mlflow`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras


def autolog(fit: Callable[..., Any], folder: str, told: list[str]) -> Callable[..., Any]:
    """Returns a `fit` that saves after each epoch and at the end, and tries to predict."""

    class Checkpoint(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.save(f"{folder}/epoch_{epoch}.keras")

    @functools.wraps(fit)
    def logging_fit(self: Any, *args: Any, **kwargs: Any) -> Any:
        kwargs["callbacks"] = [*kwargs["callbacks"], Checkpoint()]
        history = fit(self, *args, **kwargs)
        self.save_weights(f"{folder}/last.weights.h5")
        try:
            self.predict(kwargs["x"], verbose=0)
        except RuntimeError as error:
            told.append(str(error))
        return history

    return logging_fit
