"""Sequences: alignments, recurrences, causal convolutions, memories, ordering."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .case import ROWS, Training, chosen, drawn, fitted, script
from .own_step import OwnLoss


@script(rtol=1e-4)
def labels_aligned_to_frames() -> Training:
    class Aligned(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.net = keras.Sequential(
                [
                    layers.Conv1D(6, 3, padding="same"),
                    layers.Bidirectional(layers.LSTM(4, return_sequences=True)),
                    layers.Dense(5),
                ]
            )

        def call(self, x: Any) -> Any:
            return self.net(x)

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, (labels, label_lengths, frames) = data
            logits = self(x)
            losses = tf.nn.ctc_loss(
                labels, logits, label_lengths, frames, logits_time_major=False, blank_index=0
            )
            lengths = tf.cast(label_lengths, tf.float32)
            return tf.reduce_mean(losses / lengths), {"worst": tf.reduce_max(losses)}

        def predict_step(self, data: Any) -> Any:
            logits = self(data[0] if isinstance(data, tuple) else data)
            lengths = tf.fill([tf.shape(logits)[0]], 6)
            [decoded], score = tf.nn.ctc_greedy_decoder(tf.transpose(logits, [1, 0, 2]), lengths)
            words = tf.sparse.to_dense(decoded, default_value=-1)
            return tf.pad(words, [[0, 0], [0, 6 - tf.shape(words)[1]]]), score

    model = Aligned()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    labels = chosen(4, 3) + 1
    return model, fitted(drawn(8, 3), (labels, chosen(3) + 1, chosen(2) + 7))


@script()
def dilated_causal_convolutions_with_weight_normalisation() -> Training:
    class Normalised(layers.Layer):
        def __init__(self, rate: int) -> None:
            super().__init__()
            self.rate = rate

        def build(self, shape: Any) -> None:
            self.v = self.add_weight((3, shape[-1], 4), "glorot_uniform", name="v")
            self.g = self.add_weight((4,), "ones", name="g")

        def call(self, x: Any) -> Any:
            kernel = self.g * self.v / tf.sqrt(tf.reduce_sum(self.v**2, [0, 1]))
            x = tf.pad(x, [[0, 0], [2 * self.rate, 0], [0, 0]])
            return tf.nn.conv1d(x, kernel, 1, "VALID", dilations=self.rate)

    x = keras.Input((8, 3))
    h = x
    for rate in (1, 2, 4):
        y = layers.SpatialDropout1D(0.2, seed=rate)(layers.ReLU()(Normalised(rate)(h)))
        h = layers.Add()([y, layers.Conv1D(4, 1)(h)])
    model = keras.Model(x, layers.Dense(3)(h[:, -1]))

    def quantiles(y: Any, out: Any) -> Any:
        error = y - out
        levels = ops.array([0.1, 0.5, 0.9])
        return ops.sum(ops.maximum(levels * error, (levels - 1) * error), axis=-1)

    def crossings(y: Any, out: Any) -> Any:
        return ops.mean(ops.cast(out[:, 1:] < out[:, :-1], "float32"))

    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=quantiles, metrics=[crossings])
    return model, fitted(drawn(8, 3), drawn(1, seed=4))


@script()
def next_frames_by_convolutional_recurrence() -> Training:
    x = keras.Input((3, 5, 5, 1))
    h = layers.ConvLSTM2D(
        2, 3, padding="same", return_sequences=True, recurrent_dropout=0.1, seed=4
    )(x)
    h = layers.LayerNormalization()(h)
    h = layers.Conv3D(1, 3, padding="same", activation="sigmoid")(h)
    model = keras.Model(x, h)

    def similarity(y: Any, out: Any) -> Any:
        return 1 - tf.image.ssim(y[:, 0], out[:, 0], 1.0, filter_size=3)

    def structure(y: Any, out: Any) -> Any:
        return ops.mean(tf.image.total_variation(out[:, -1]))

    model.compile(
        optimizer=keras.optimizers.Adadelta(1.0),
        loss="binary_crossentropy",
        metrics=[similarity, structure],
    )
    frames = np.abs(np.tanh(drawn(3, 5, 5, 1)))
    return model, fitted(frames, np.roll(frames, -1, 1))


@script(rtol=3e-4)
def recurrence_over_masked_ragged_lengths() -> Training:
    x = keras.Input((6, 2))
    h = layers.Masking()(x)
    first = layers.GRU(4, return_sequences=True, dropout=0.2, seed=3)(h)
    second = layers.LSTM(4, go_backwards=True, return_sequences=True)(first)
    pooled = layers.GlobalAveragePooling1D()(second)
    attended = layers.AdditiveAttention()([first, second])
    last = layers.SimpleRNN(3, unroll=True)(attended)
    model = keras.Model(x, layers.Dense(1)(layers.Concatenate()([pooled, last])))
    model.compile(
        optimizer=keras.optimizers.Ftrl(0.1),
        loss=keras.losses.LogCosh(),
        metrics=["mae", keras.metrics.RootMeanSquaredError()],
    )
    given = drawn(6, 2)
    given[np.arange(6) >= chosen(5, 1) + 2] = 0
    return model, fitted(given, drawn(1, seed=2))


@script()
def teacher_forcing_on_a_schedule() -> Training:
    class Scheduled(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.out = layers.LSTMCell(5), layers.Dense(2)
            self.cell.build((None, 4))
            self.out.build((None, 5))
            self.chance = self.add_weight((), "ones", trainable=False, name="chance")
            self.generator = keras.random.SeedGenerator(2)

        def call(self, x: Any, truth: Any = None) -> Any:
            rows, length = tf.shape(x)[0], x.shape[1]
            found = tf.TensorArray(tf.float32, length)
            zeros = tf.zeros([rows, 5])

            def turn(t: Any, word: Any, a: Any, b: Any, found: Any) -> Any:
                out, [a, b] = self.cell(tf.concat([word, x[:, t]], -1), [a, b])
                given = self.out(out)
                found = found.write(t, given)
                if truth is not None:
                    draw = keras.random.uniform((rows, 1), seed=self.generator)
                    given = tf.where(draw < self.chance, truth[:, t], given)
                return t + 1, given, a, b, found

            first = tf.zeros([rows, 2])
            *_, found = tf.while_loop(
                lambda t, *_: t < length, turn, (0, first, zeros, zeros, found)
            )
            return tf.transpose(found.stack(), [1, 0, 2])

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, y = data
            out = self(x, y if training else None)
            far = tf.norm(out - y, axis=-1)
            return tf.reduce_mean(far), {"far": tf.reduce_max(far)}

        def after(self, data: Any) -> None:
            self.chance.assign(tf.maximum(self.chance - 0.2, 0.3))

    model = Scheduled()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(drawn(4, 2), drawn(4, 2, seed=1))


@script(gathers="ConcatV2")
def patterns_stored_and_retrieved() -> Training:
    class Hopfield(layers.Layer):
        """Retrieval of learnt patterns, and of those that other rows of the batch bring."""

        def build(self, shape: Any) -> None:
            self.stored = self.add_weight((5, shape[-1]), "random_normal", name="stored")
            self.beta = self.add_weight((), "ones", name="beta")

        def call(self, x: Any) -> Any:
            keys = tf.concat([tf.convert_to_tensor(self.stored), x], 0)
            state, change = x, tf.constant(1.0)
            for _ in range(3):
                scores = self.beta * tf.matmul(state, keys, transpose_b=True)
                own = tf.pad(tf.eye(tf.shape(x)[0]), [[0, 0], [5, 0]])
                new = tf.matmul(tf.nn.softmax(scores - 1e9 * own), keys)
                change = tf.reduce_max(tf.abs(new - state))
                state = tf.where(change > 1e-3, new, state)
            return state

    x = keras.Input((4,))
    model = keras.Model(x, layers.Dense(4)(Hopfield()(layers.Dense(4)(x))))
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["cosine_similarity"])
    return model, fitted(drawn(4), drawn(4))


@script()
def ranking_by_lists_and_pairs() -> Training:
    class Ranking(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.score = keras.Sequential([layers.Dense(6, activation="relu"), layers.Dense(1)])

        def call(self, x: Any) -> Any:
            return self.score(x)[..., 0]

        def loss_of(self, data: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            x, grade = data
            score = self(x)
            grade = tf.cast(grade, tf.float32)
            higher = tf.cast(grade[:, :, None] > grade[:, None], tf.float32)
            rank = tf.argsort(tf.argsort(score, direction="DESCENDING")) + 1
            ideal = tf.sort(grade, direction="DESCENDING")
            discount = 1 / tf.math.log(tf.range(2, 7, dtype=tf.float32))
            best = tf.reduce_sum((2**ideal - 1) * discount, -1, keepdims=True)
            at = 1 / tf.math.log(1 + tf.cast(rank, tf.float32))
            gain = (2**grade - 1) / tf.maximum(best, 1.0)
            delta = tf.abs(gain[:, :, None] - gain[:, None]) * tf.abs(at[:, :, None] - at[:, None])
            pairs = tf.nn.softplus(score[:, None] - score[:, :, None]) * higher * delta
            listwise = tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(grade), score)
            ndcg = tf.reduce_sum(gain * at, -1)
            return tf.reduce_mean(tf.reduce_sum(pairs, [1, 2]) + listwise), {
                "ndcg": tf.reduce_mean(ndcg)
            }

    model = Ranking()
    model.compile(optimizer=keras.optimizers.Adagrad(0.1))
    assert ROWS > 2
    return model, fitted(drawn(5, 3), chosen(4, 5))
