"""Training on n ranks gives the weights, histories and predictions of serial Keras."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from cases import cases
from classifiers import classifier, results_of, samples
from rank_pools import ENVIRONMENT
from serial_results import assert_close

from tnt_comm.testing import run_ranks

# Batches of 13 samples divide by none of 2, 3, 4; the last one has 2, fewer than 3 or 4 ranks.
NUM_SAMPLES, BATCH_SIZE = 54, 13


def trained(distributed: bool) -> dict[str, Any]:
    """Trains in a shuffled order with validation, evaluates and predicts."""
    model = classifier(distributed, optimizer=keras.optimizers.Adam(1e-3))
    train, test = (
        tf.data.Dataset.from_tensor_slices(samples(NUM_SAMPLES, seed)).batch(BATCH_SIZE)
        for seed in (1, 2)
    )
    history = model.fit(train.shuffle(3, seed=5), epochs=3, validation_data=test, verbose=0)
    return results_of(model, history) | {
        "evaluate": model.evaluate(test, verbose=0),
        "predict": model.predict(test, verbose=0),
    }


@cases("size", [3], thorough=[4])
def test_results_equal_serial_keras(size: int, pool_of: Any, preloaded: Any) -> None:
    [expected] = pool_of(1).run(trained, False)
    if size <= 3:
        results = pool_of(size).run(trained, True)
    else:  # no other test needs so many ranks: to fork them is quicker than to start a pool
        results = run_ranks(trained, size, True, env=ENVIRONMENT, preloaded=preloaded)
    for result in results:
        # Adam's steps are as large as the rate, 1e-3: after 15 of them, a percent of one.
        assert_close(result, expected)
        for own, master in zip(result["weights"], results[0]["weights"], strict=True):
            np.testing.assert_array_equal(own, master)
        assert result["history"] == results[0]["history"]
        np.testing.assert_array_equal(result["predict"], results[0]["predict"])
