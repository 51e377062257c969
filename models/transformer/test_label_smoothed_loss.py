"""The loss is that of its formula, leaves padding out, and is the serial one on several ranks."""

import keras
import numpy as np
import pytest
from cases import cases

from models.transformer.loss import LabelSmoothedCrossentropy

VOCAB_SIZE = 11
LENGTHS = [7, 1, 3, 7, 2, 5, 1]  # of seven sentences: ranks get unequal numbers of tokens


def make_batch():
    random = np.random.default_rng(0)
    targets = random.integers(1, VOCAB_SIZE, (len(LENGTHS), 7))
    targets[np.arange(7)[np.newaxis] >= np.array(LENGTHS)[:, np.newaxis]] = 0
    return targets, random.normal(size=(len(LENGTHS), 7, VOCAB_SIZE)).astype(np.float32)


def loss_by_hand(targets, logits, smoothing):
    log_p = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    total = 0.0
    for target, row in zip(targets.ravel(), log_p.reshape(-1, VOCAB_SIZE), strict=True):
        if target != 0:
            q = np.full(VOCAB_SIZE, smoothing / (VOCAB_SIZE - 1))
            q[target] = 1 - smoothing
            total += -(q * row).sum() + (q[q > 0] * np.log(q[q > 0])).sum()
    return total / np.count_nonzero(targets)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.5])
def test_the_loss_is_a_mean_over_subwords_that_are_no_padding(smoothing):
    targets, logits = make_batch()
    loss = LabelSmoothedCrossentropy(smoothing)(targets, logits)
    np.testing.assert_allclose(loss, loss_by_hand(targets, logits, smoothing), rtol=1e-5)


def test_a_perfect_prediction_has_no_loss():
    smoothing = 0.1
    q = np.full((1, 1, VOCAB_SIZE), smoothing / (VOCAB_SIZE - 1))
    q[0, 0, 4] = 1 - smoothing
    loss = LabelSmoothedCrossentropy(smoothing)(np.array([[4]]), np.log(q))
    np.testing.assert_allclose(loss, 0.0, atol=1e-6)


def test_sample_weights_weigh_subwords():
    targets, logits = make_batch()
    weights = np.ones(targets.shape)
    weights[3:] = 0.0
    loss = LabelSmoothedCrossentropy()(targets, logits, weights)
    np.testing.assert_allclose(loss, loss_by_hand(targets[:3], logits[:3], 0.1), rtol=1e-5)


def test_padding_alone_has_no_loss_and_no_gradient():
    loss = LabelSmoothedCrossentropy()(np.zeros((2, 3), int), np.ones((2, 3, VOCAB_SIZE)))
    assert float(loss) == 0.0


def test_the_loss_can_be_saved():
    loss = LabelSmoothedCrossentropy(0.2, name="smoothed")
    again = keras.losses.deserialize(keras.losses.serialize(loss))
    assert again.get_config() == loss.get_config()


def test_smoothing_of_everything_is_refused():
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        LabelSmoothedCrossentropy(1.0)


def train_on_uneven_lengths(distribute):
    """Train a table of logits on two uneven batches; return its weights and the losses."""
    import tensorflow as tf

    import tarantella as tnt

    targets, _ = make_batch()
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((7,)), keras.layers.Embedding(VOCAB_SIZE, VOCAB_SIZE)])
    if distribute:
        model = tnt.Model(model)
    model.compile(keras.optimizers.SGD(1.0), LabelSmoothedCrossentropy())
    dataset = tf.data.Dataset.from_tensor_slices((targets[:, ::-1], targets)).batch(4)
    history = model.fit(dataset, epochs=3, shuffle=False, verbose=0)
    return model.get_weights()[0], history.history["loss"]


@cases("size", [2], thorough=[3])
def test_ranks_with_unequal_numbers_of_tokens_train_as_one(pool_of, size):
    serial_weights, serial_losses = train_on_uneven_lengths(distribute=False)
    for weights, losses in pool_of(size).run(train_on_uneven_lengths, True):
        np.testing.assert_allclose(weights, serial_weights, atol=1e-6)
        np.testing.assert_allclose(losses, serial_losses, rtol=1e-6)
