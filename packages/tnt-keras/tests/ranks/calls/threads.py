"""Training in two threads of one process; each run returns plain values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from behaviours import batches_of
from classifiers import classifier, restarted


def weights_after_fit(distributed: bool, epochs: int = 2) -> list[np.ndarray]:
    """Trains a classifier in this thread."""
    model = restarted(classifier, distributed)
    model.fit(batches_of(), epochs=epochs, verbose=0)
    return _weights(model)


def fit_during_fit(method: str) -> dict[str, Any]:
    """Calls a method of a second model in a second thread while the first one trains, and after.

    Args:
        method: "fit", "evaluate", "predict" or "train_on_batch".
    """
    first, second = restarted(classifier, True), classifier(True)
    calls = {
        "fit": lambda: second.fit(batches_of(), verbose=0),
        "evaluate": lambda: second.evaluate(batches_of(), verbose=0),
        "predict": lambda: second.predict(batches_of(), verbose=0),
        "train_on_batch": lambda: second.train_on_batch(*next(iter(batches_of()))),
    }
    errors: list[tuple[str, str]] = []

    class CallTheSecond(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                _in_a_thread(calls[method], errors)

    first.fit(batches_of(), epochs=2, verbose=0, callbacks=[CallTheSecond()])
    num_refused = len(errors)
    _in_a_thread(lambda: second.fit(batches_of(), epochs=2, verbose=0), errors)
    return {
        "refused": errors[:num_refused],
        "later errors": errors[num_refused:],
        "weights": [_weights(first), _weights(second)],
    }


def plain_fit_during_fit() -> list[list[np.ndarray]]:
    """Trains a plain model in a second thread while a distributed one trains."""
    first, second = restarted(classifier, True), restarted(classifier, False)
    errors: list[tuple[str, str]] = []

    class TrainTheSecond(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1:
                _in_a_thread(lambda: second.fit(batches_of(), verbose=0), errors)

    first.fit(batches_of(), epochs=2, verbose=0, callbacks=[TrainTheSecond()])
    assert errors == []
    return [_weights(first), _weights(second)]


def _in_a_thread(call: Callable[[], Any], errors: list[tuple[str, str]]) -> None:
    """Waits for a call in a thread called "second"; adds type and text of its error."""

    def run() -> None:
        try:
            call()
        except Exception as error:  # the kind is what the test looks at
            errors.append((type(error).__name__, str(error)))

    thread = threading.Thread(target=run, name="second")
    thread.start()
    thread.join()


def _weights(model: Any) -> list[np.ndarray]:
    return [np.asarray(weight) for weight in model.get_weights()]
