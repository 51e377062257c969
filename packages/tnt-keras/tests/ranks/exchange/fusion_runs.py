"""Runs with other settings of fusion and compression than the default."""

from __future__ import annotations

import logging
from typing import Any

import classifiers
import numpy as np

import tnt_comm
import tnt_keras


def _collect_messages() -> list[str]:
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logging.getLogger("tnt_keras").addHandler(Collect())
    return messages


def train() -> dict[str, Any]:
    """Trains a classifier; returns its weights, what was logged and the bytes contributed."""
    messages = _collect_messages()
    model = classifiers.restarted(classifiers.classifier, True)
    x, y = classifiers.samples()
    model.fit(x, y, batch_size=11, shuffle=False, epochs=2, verbose=0)
    return {
        "weights": [np.asarray(w) for w in model.get_weights()],
        "messages": messages,
        "num_parameters": model.count_params(),
        "rank": tnt_keras.get_rank(),
        "num_operations": tnt_comm.counters().num_operations,
    }
