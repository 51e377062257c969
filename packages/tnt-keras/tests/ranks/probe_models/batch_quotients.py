"""Steps whose loss is a sum, a quotient of sums, or one value per sample."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, network, own_step, squared_errors


def _regression(loss_of: Any, **arguments: Any) -> Training:
    return own_step(loss_of, **arguments), data.of_arrays(data.features(), data.targets())


@wrong(predicts=False)
def siamese_pairs() -> Training:
    """Contrastive loss of the pair in each sample, one value per sample."""

    def contrastive(model: Any, pairs: Any, y: Any) -> Any:
        left, right_ = model.inner(pairs[:, :6]), model.inner(pairs[:, 6:])
        distance = tf.norm(left - right_ + 1e-3, axis=-1)
        same = y[:, 0]
        return same * distance**2 + (1.0 - same) * tf.maximum(1.0 - distance, 0.0) ** 2

    model = own_step(contrastive, network(3), keras.optimizers.SGD(0.02))
    return model, data.of_arrays(data.features(12), data.bits())


@wrong(evaluates=False)
def masked_language_model() -> Training:
    """BERT of keras.io: an unreduced loss for each token, weighted by what was masked."""
    x = keras.Input((5,), dtype="int32")
    hidden = keras.layers.Embedding(11, 6)(x)
    hidden = keras.layers.Dense(6, activation="relu")(hidden)
    inner = keras.Model(x, keras.layers.Dense(11, activation="softmax")(hidden))
    unreduced = keras.losses.SparseCategoricalCrossentropy(reduction=None)

    class MaskedLanguageModel(OwnStep):
        def train_step(self, batch: Any) -> Any:
            words, truth, weights = batch
            with tf.GradientTape() as tape:
                loss = unreduced(truth, self(words, training=True), sample_weight=weights)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.loss_tracker.update_state(loss, sample_weight=weights)
            return {"loss": self.loss_tracker.result()}

    words = data.tokens()
    masked = (words % 3 == 1).astype("float32")
    model = own_step(squared_errors, inner, keras.optimizers.SGD(0.02), MaskedLanguageModel)
    return model, data.of_arrays(words * (masked == 0), words, sample_weight=masked)


@wrong()
def sum_divided_by_global_batch_size() -> Training:
    """A constant for the batch, as scripts for several workers have it."""
    return _regression(
        lambda model, x, y: tf.reduce_sum(squared_errors(model, x, y)) / data.BATCH_SIZE
    )


@wrong()
def classes_balanced_by_batch() -> Training:
    """Each sample weighted by the inverse frequency of its class in the batch."""

    def balanced(model: Any, x: Any, y: Any) -> Any:
        frequency = tf.reduce_mean(tf.one_hot(y, 3), axis=0)
        values = keras.ops.sparse_categorical_crossentropy(y, model(x), from_logits=True)
        return tf.reduce_mean(values / tf.gather(frequency, y))

    return own_step(balanced, network(3)), data.of_arrays(data.features(), data.labels())


@wrong(evaluates=False)
def sum_for_one_network_and_mean_for_the_other() -> Training:
    """Each gradient has a rule of its own."""
    encoder = network(4)
    decoder = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6)])

    class TwoLosses(OwnStep):
        def __init__(self, inner: Any, loss_of: Any) -> None:
            super().__init__(inner, loss_of)
            self.decoder = decoder

        def call(self, x: Any, training: bool = False) -> Any:
            return self.decoder(self.inner(x))

        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            # The loss itself, a sum and a mean, would follow no rule.
            return {"code": tf.reduce_mean(self.inner(x))}

    def both(model: Any, x: Any, _: Any) -> Any:
        code = model.inner(x)
        rebuilt = model.decoder(tf.stop_gradient(code))
        return tf.reduce_sum(code**2) / 20.0 + tf.reduce_mean((rebuilt - x) ** 2)

    model = own_step(both, encoder, kind=TwoLosses)
    return model, data.of_arrays(data.features(), data.features())


@wrong(policy="mixed_bfloat16")
def masked_quotient_in_bfloat16() -> Training:
    def masked(model: Any, x: Any, y: Any) -> Any:
        mask = tf.cast(x[:, 0] > 0.6, tf.float32)
        values = tf.reduce_mean((tf.cast(model(x), tf.float32) - y) ** 2, axis=-1)
        return tf.reduce_sum(values * mask) / (tf.reduce_sum(mask) + 0.1)

    return _regression(masked)


@wrong(policy="mixed_float16", evaluates=False)
def loss_per_sample_in_float16() -> Training:
    def scaled(model: Any, x: Any, y: Any) -> Any:
        values = tf.reduce_mean((tf.cast(model(x), tf.float32) - y) ** 2, axis=-1)
        return model.optimizer.scale_loss(values)

    class UnscaledLogs(OwnStep):
        def logs(self, x: Any, y: Any, loss: Any) -> dict[str, Any]:
            return {"output": tf.reduce_mean(self(x))}

    model = own_step(scaled, kind=UnscaledLogs)
    return model, data.of_arrays(data.features(), data.targets())


@right()
def keras_sum_in_own_step() -> Training:
    """A Keras loss with reduction="sum", taken as it is."""
    loss = keras.losses.MeanAbsoluteError(reduction="sum")
    optimizer = keras.optimizers.SGD(0.01)
    return _regression(lambda model, x, y: loss(y, model(x, training=True)), optimizer=optimizer)
