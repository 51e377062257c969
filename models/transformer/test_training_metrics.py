"""Accuracies and perplexity leave padding out, and can be saved."""

import keras
import numpy as np
import pytest

from models.transformer.metrics import make_metrics

# The most probable subwords are 2, 3 and 4, in this order for each of two sentences.
TARGETS = np.array([[2, 3, 0], [2, 5, 4]])
LOGITS = 10.0 * np.stack([np.eye(9)[[2, 3, 4]]] * 2)


@pytest.fixture
def values():
    metrics = make_metrics()
    for metric in metrics:
        metric.update_state(TARGETS, LOGITS)
    return {metric.name: float(metric.result()) for metric in metrics}


def test_padding_is_not_counted(values):
    assert values["accuracy"] == pytest.approx(4 / 5)
    assert values["accuracy_per_sequence"] == pytest.approx(1 / 2)
    log_p = 10 - np.log(np.exp(10) + 8)
    assert values["neg_log_perplexity"] == pytest.approx((4 * log_p + log_p - 10) / 5, rel=1e-5)


def test_a_subword_may_be_among_the_best_five():
    metric = make_metrics()[1]
    logits = np.arange(9.0)[::-1].reshape(1, 1, 9)  # the best are 0 to 4
    metric.update_state(np.array([[4]]), logits)
    metric.update_state(np.array([[5]]), logits)
    assert float(metric.result()) == 0.5


def test_a_sentence_of_padding_alone_is_none():
    metric = make_metrics()[2]
    metric.update_state(np.array([[2, 5, 4], [0, 0, 0]]), LOGITS)
    assert float(metric.result()) == 0.0


def test_metrics_can_be_saved():
    for metric in make_metrics():
        again = keras.metrics.deserialize(keras.metrics.serialize(metric))
        assert type(again) is type(metric)
        assert again.name == metric.name
