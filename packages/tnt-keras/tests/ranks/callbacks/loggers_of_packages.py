"""Trainings while a logger's package has put a function of its own in place of Keras' `fit`."""

from __future__ import annotations

import pathlib
from typing import Any

import keras
from behaviours import batches_of
from classifiers import classifier, restarted
from logged import logged

import tnt_keras
from tnt_keras.keras_hooks.patch import replaced

SOURCE = pathlib.Path(__file__).with_name("autolog_of_a_package.py")


def autolog_on(ranks: list[int], folder: str) -> tuple[dict[str, Any], list[str], list[str]]:
    """Losses of a run with a checkpoint of its own, what the logger was told, and warnings."""
    of_logger: dict[str, Any] = {"__name__": "mlflow.of_this_test"}
    exec(compile(SOURCE.read_text("utf-8"), SOURCE, "exec"), of_logger)
    told: list[str] = []
    fit = keras.Model.fit
    if tnt_keras.get_rank() in ranks:
        fit = of_logger["autolog"](fit, f"{folder}/rank_{tnt_keras.get_rank()}", told)
    checkpoint = keras.callbacks.ModelCheckpoint(f"{folder}/of_the_script_{{epoch}}.keras")
    model = restarted(classifier, True)
    with replaced(keras.Model, "fit", fit), logged() as warnings:
        history = model.fit(
            batches_of(),
            epochs=2,
            validation_data=batches_of(),
            callbacks=[checkpoint],
            verbose=0,
        )
    return history.history, told, warnings
