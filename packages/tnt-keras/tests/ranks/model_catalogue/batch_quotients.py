"""Steps whose loss is a sum, a quotient of sums, or one value per sample."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from . import data
from .case import Training, right, wrong
from .steps import OwnStep, mean_squared_error, network, own_step, squared_errors


def _regression(loss_of: Any, **arguments: Any) -> Training:
    return own_step(loss_of, **arguments), data.of_arrays(data.features(), data.targets())


@wrong()
def loss_of_one_value_per_sample() -> Training:
    """The tape adds the values up."""
    return _regression(squared_errors, optimizer=keras.optimizers.SGD(0.02))


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
def sum_reduction_divided_by_batch() -> Training:
    """keras.losses.X(reduction="sum") divided by the number of rows."""
    summed = keras.losses.MeanSquaredError(reduction="sum")
    return _regression(
        lambda model, x, y: summed(y, model(x, training=True)) / tf.cast(tf.shape(x)[0], tf.float32)
    )


@wrong()
def sum_divided_by_global_batch_size() -> Training:
    """A constant for the batch, as scripts for several workers have it."""
    return _regression(
        lambda model, x, y: tf.reduce_sum(squared_errors(model, x, y)) / data.BATCH_SIZE
    )


@wrong()
def average_loss_of_global_batch() -> Training:
    return _regression(
        lambda model, x, y: tf.nn.compute_average_loss(
            squared_errors(model, x, y), global_batch_size=data.BATCH_SIZE
        )
    )


@wrong()
def mean_times_rows() -> Training:
    """A loss that grows with the batch."""
    return _regression(
        lambda model, x, y: (
            mean_squared_error(model, x, y) * tf.cast(tf.shape(x)[0], tf.float32) / 10.0
        )
    )


@wrong()
def sum_of_masked_over_sum_of_mask() -> Training:
    def masked(model: Any, x: Any, y: Any) -> Any:
        mask = tf.cast(x[:, 0] > 0.2, tf.float32)
        return tf.reduce_sum(squared_errors(model, x, y) * mask) / (tf.reduce_sum(mask) + 1e-3)

    return _regression(masked)


@wrong()
def translation_masked_loss() -> Training:
    """Transformer of TensorFlow's tutorial: the loss of tokens over the number of tokens."""
    inner = keras.Sequential(
        [
            keras.Input((5,), dtype="int32"),
            keras.layers.Embedding(11, 6),
            keras.layers.Dense(11),
        ]
    )

    def masked(model: Any, words: Any, truth: Any) -> Any:
        values = keras.ops.sparse_categorical_crossentropy(truth, model(words), from_logits=True)
        mask = tf.cast(truth != 0, values.dtype)
        return tf.reduce_sum(values * mask) / tf.reduce_sum(mask)

    words = data.tokens()
    return own_step(masked, inner), data.of_arrays(words, words[:, ::-1].copy())


@wrong()
def weighted_mean_of_own() -> Training:
    """sum(w * l) / sum(w) with weights out of the samples."""

    def weighted(model: Any, x: Any, y: Any) -> Any:
        weights = tf.exp(x[:, 0])
        return tf.reduce_sum(weights * squared_errors(model, x, y)) / tf.reduce_sum(weights)

    return _regression(weighted)


@wrong()
def classes_balanced_by_batch() -> Training:
    """Each sample weighted by the inverse frequency of its class in the batch."""

    def balanced(model: Any, x: Any, y: Any) -> Any:
        frequency = tf.reduce_mean(tf.one_hot(y, 3), axis=0)
        values = keras.ops.sparse_categorical_crossentropy(y, model(x), from_logits=True)
        return tf.reduce_mean(values / tf.gather(frequency, y))

    return own_step(balanced, network(3)), data.of_arrays(data.features(), data.labels())


@wrong()
def sum_with_regularisation() -> Training:
    """The sum grows with the batch, the penalty does not: one gradient, two rules."""

    def regularised(model: Any, x: Any, y: Any) -> Any:
        penalty = tf.add_n([tf.reduce_sum(w**2) for w in model.trainable_variables])
        return tf.reduce_sum(squared_errors(model, x, y)) + penalty

    return _regression(regularised, optimizer=keras.optimizers.SGD(0.02))


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


@wrong()
def focal_loss_by_number_of_positives() -> Training:
    """RetinaNet: the sum over anchors, divided by the positives of the batch."""

    def focal(model: Any, x: Any, y: Any) -> Any:
        values = keras.ops.sum(
            keras.losses.binary_focal_crossentropy(y, model(x), from_logits=True), axis=-1
        )
        positives = tf.reduce_sum(y) + 1.0
        return tf.reduce_sum(values) / positives

    return own_step(focal, network(4)), data.of_arrays(data.features(), data.bits(4))


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
def mean_of_own() -> Training:
    return _regression(mean_squared_error)


@right()
def mean_with_weight_penalty() -> Training:
    """Elastic weight consolidation: a term of the weights alone."""

    def penalised(model: Any, x: Any, y: Any) -> Any:
        penalty = tf.add_n([tf.reduce_sum(w**2) for w in model.trainable_variables])
        return mean_squared_error(model, x, y) + 0.1 * penalty

    return _regression(penalised)


@right()
def keras_loss_in_own_step() -> Training:
    loss = keras.losses.Huber()
    return _regression(lambda model, x, y: loss(y, model(x, training=True)))


@right()
def keras_sum_in_own_step() -> Training:
    """A Keras loss with reduction="sum", taken as it is."""
    loss = keras.losses.MeanAbsoluteError(reduction="sum")
    optimizer = keras.optimizers.SGD(0.01)
    return _regression(lambda model, x, y: loss(y, model(x, training=True)), optimizer=optimizer)


@right()
def unreduced_loss_and_own_mean() -> Training:
    unreduced = keras.losses.MeanSquaredError(reduction="none")
    return _regression(lambda model, x, y: tf.reduce_mean(unreduced(y, model(x))))
