"""Parts of language models: rotary positions, shared keys, adapters, experts, search, scans."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from .case import Training, chosen, fitted, script
from .own_step import OwnLoss

LENGTH, WORDS, WIDTH = 6, 11, 8


def _sentences(seed: int = 0) -> np.ndarray:
    words = chosen(WORDS - 1, LENGTH, seed=seed) + 1
    lengths = chosen(LENGTH - 2, 1, seed=seed + 1) + 2
    return np.where(np.arange(LENGTH) < lengths, words, 0).astype("int32")


def _following() -> dict[str, Any]:
    words = _sentences()
    following = np.roll(words, -1, 1)
    following[:, -1] = 0
    return fitted(words, following, sample_weight=(following > 0).astype("float32"))


class RotaryAttention(layers.Layer):
    """Attention whose queries share keys, with rotary positions, causal, behind a mask of keys."""

    def __init__(self, heads: int = 4, groups: int = 2, size: int = 4) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, size
        self.supports_masking = True

    def build(self, shape: Any) -> None:
        self.q = self.add_weight((shape[-1], self.heads, self.size), "glorot_uniform", name="q")
        self.kv = self.add_weight(
            (shape[-1], 2, self.groups, self.size), "glorot_uniform", name="kv"
        )
        self.o = self.add_weight((self.heads, self.size, shape[-1]), "glorot_uniform", name="o")

    def rotated(self, x: Any) -> Any:
        length = tf.shape(x)[1]
        frequencies = 10000.0 ** (-tf.range(0, self.size, 2, tf.float32) / self.size)
        angles = tf.cast(tf.range(length), tf.float32)[:, None] * frequencies
        angles = tf.concat([angles, angles], -1)[None, :, None]
        half = self.size // 2
        turned = tf.concat([-x[..., half:], x[..., :half]], -1)
        return x * tf.cos(angles) + turned * tf.sin(angles)

    def call(self, x: Any, mask: Any = None) -> Any:
        q = self.rotated(tf.einsum("ntd,dhs->nths", x, self.q))
        kv = tf.einsum("ntd,dcgs->nctgs", x, self.kv)
        k, v = tf.unstack(kv, axis=1)
        k = tf.repeat(self.rotated(k), self.heads // self.groups, axis=2)
        v = tf.repeat(v, self.heads // self.groups, axis=2)
        scores = tf.einsum("nqhs,nkhs->nhqk", q, k) / self.size**0.5
        length = tf.shape(x)[1]
        seen = tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0)[None]
        if mask is not None:
            seen = seen & mask[:, None, :]
        weights = tf.nn.softmax(tf.where(seen[:, None], scores, -1e9))
        return tf.einsum("nhqk,nkhs,hsd->nqd", weights, v, self.o)


@script()
def decoder_with_rotary_positions_and_shared_keys() -> Training:
    words = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH, mask_zero=True)(words)
    for _ in range(2):
        x = layers.Add()([x, RotaryAttention()(layers.RMSNormalization()(x))])
        h = layers.RMSNormalization()(x)
        gated = layers.Multiply()([layers.Dense(12, activation="silu")(h), layers.Dense(12)(h)])
        x = layers.Add()([x, layers.Dropout(0.1, seed=2)(layers.Dense(WIDTH)(gated))])
    model = keras.Model(words, layers.Dense(WORDS)(x))
    model.compile(
        optimizer=keras.optimizers.AdamW(
            keras.optimizers.schedules.CosineDecay(0.0, 5, warmup_target=0.01, warmup_steps=2),
            global_clipnorm=1.0,
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0),
        weighted_metrics=["sparse_categorical_accuracy"],
    )
    return model, _following()


@script()
def adapters_of_low_rank_on_a_frozen_encoder() -> Training:
    words = keras.Input((LENGTH,), dtype="int32")
    table = layers.ReversibleEmbedding(WORDS, WIDTH, tie_weights=True, mask_zero=True)
    x = table(words)
    attended = layers.MultiHeadAttention(2, 4)(x, x, use_causal_mask=True)
    x = layers.LayerNormalization()(layers.Add()([x, attended]))
    dense = layers.EinsumDense("ntd,de->nte", (None, WIDTH), bias_axes="e", activation="gelu")
    model = keras.Model(words, table(dense(x), reverse=True))
    for layer in model.layers:
        layer.trainable = False
    table.enable_lora(2)
    dense.trainable = True
    dense.enable_lora(2)
    model.compile(
        optimizer=keras.optimizers.Lion(0.003),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[keras.metrics.SparseTopKCategoricalAccuracy(3)],
    )
    return model, _following()


@script(gathers="ConcatV2 Cumsum ScatterNd StridedSlice")
def experts_of_limited_capacity() -> Training:
    class Switch(layers.Layer):
        def build(self, shape: Any) -> None:
            self.router = layers.Dense(3)
            self.w = self.add_weight((3, shape[-1], 8), "glorot_uniform", name="w")
            self.v = self.add_weight((3, 8, shape[-1]), "glorot_uniform", name="v")
            self.generator = keras.random.SeedGenerator(1)

        def call(self, x: Any, training: bool = False) -> Any:
            tokens = tf.reshape(x, [-1, x.shape[-1]])
            number = tf.shape(tokens)[0]
            capacity = tf.cast(tf.math.ceil(1.25 * tf.cast(number, tf.float32) / 3), tf.int32)
            logits = self.router(tokens)
            if training:
                logits *= keras.random.uniform(tf.shape(logits), 0.9, 1.1, seed=self.generator)
            gates = tf.nn.softmax(logits)
            hot = tf.one_hot(tf.argmax(gates, -1), 3)
            self.add_loss(
                0.1 * 3 * tf.reduce_sum(tf.reduce_mean(hot, 0) * tf.reduce_mean(gates, 0))
            )
            place = tf.reduce_sum(tf.cumsum(hot, exclusive=True) * hot, -1)
            fits = tf.cast(place < tf.cast(capacity, tf.float32), tf.float32)
            hot *= fits[:, None]
            dispatch = hot[:, :, None] * tf.one_hot(tf.cast(place, tf.int32), capacity)[:, None]
            inputs = tf.einsum("nec,nd->ecd", dispatch, tokens)
            hidden = tf.nn.relu(tf.einsum("ecd,edh->ech", inputs, self.w))
            outputs = tf.einsum("ech,ehd->ecd", hidden, self.v)
            gate = tf.reduce_sum(gates * hot, -1)[:, None, None]
            combined = tf.einsum("nec,ecd->nd", dispatch * gate, outputs)
            return x + tf.reshape(combined, tf.shape(x))

    words = keras.Input((LENGTH,), dtype="int32")
    x = Switch()(layers.Embedding(WORDS, WIDTH)(words))
    model = keras.Model(words, layers.Dense(WORDS)(x))
    model.compile(
        optimizer=keras.optimizers.Adafactor(0.02),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return model, _following()


@script()
def translation_that_predicts_by_beam_search() -> Training:
    class Translator(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.words = layers.Embedding(WORDS, WIDTH, mask_zero=True)
            self.encoder = layers.Bidirectional(layers.GRU(4))
            self.cell, self.out = layers.GRUCell(WIDTH), layers.Dense(WORDS)
            self.rnn = layers.RNN(self.cell, return_sequences=True)

        def call(self, data: Any) -> Any:
            source, target = data
            return self.out(
                self.rnn(self.words(target), initial_state=self.encoder(self.words(source)))
            )

        def predict_step(self, data: Any) -> Any:
            (source, _), *_ = data if isinstance(data[0], tuple) else (data,)
            width, rows = 3, tf.shape(source)[0]
            state = tf.repeat(self.encoder(self.words(source)), width, 0)
            words = tf.ones([rows * width, 1], tf.int32)
            scores = tf.tile([[0.0, -1e9, -1e9]], [rows, 1])

            def turn(i: Any, words: Any, scores: Any, state: Any) -> Any:
                out, [state] = self.cell(self.words(words[:, -1]), [state])
                chance = tf.nn.log_softmax(self.out(out))
                total = tf.reshape(scores, [-1, 1]) + chance
                best, places = tf.math.top_k(tf.reshape(total, [rows, width * WORDS]), width)
                parent = tf.reshape(places // WORDS + width * tf.range(rows)[:, None], [-1])
                word = tf.reshape(places % WORDS, [-1, 1])
                words = tf.concat([tf.gather(words, parent), word], 1)
                return i + 1, words, best, tf.gather(state, parent)

            _, words, scores, _ = tf.while_loop(
                lambda i, *_: i < 4,
                turn,
                (0, words, scores, state),
                (
                    tf.TensorShape([]),
                    tf.TensorShape([None, None]),
                    scores.shape,
                    state.shape,
                ),
            )
            return tf.reshape(words, [rows, width, 5]), scores

    model = Translator()
    model.compile(
        optimizer=keras.optimizers.Adam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    arguments = _following()
    return model, {**arguments, "x": (_sentences(5), arguments["x"])}


@script()
def selective_scan_of_a_state_space() -> Training:
    class Selective(layers.Layer):
        def build(self, shape: Any) -> None:
            self.a = self.add_weight((WIDTH, 2), "random_normal", name="a")
            self.rates = layers.Dense(WIDTH, activation="softplus")
            self.b, self.c = layers.Dense(2), layers.Dense(2)

        def compute_output_shape(self, shape: Any) -> Any:
            return shape

        def call(self, x: Any) -> Any:
            rate = self.rates(x)
            decay = ops.exp(-ops.exp(self.a) * rate[..., None])
            inputs = (rate * x)[..., None] * self.b(x)[:, :, None]

            def combined(left: Any, right: Any) -> Any:
                return left[0] * right[0], left[1] * right[0] + right[1]

            _, state = ops.associative_scan(combined, (decay, inputs), axis=1)
            return ops.einsum("ntds,nts->ntd", state, self.c(x))

    words = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, WIDTH)(words)
    x = layers.Conv1D(WIDTH, 3, padding="causal", groups=WIDTH, activation="silu")(x)
    model = keras.Model(words, layers.Dense(WORDS)(Selective()(x)))
    model.compile(
        optimizer=keras.optimizers.Nadam(0.01),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=["accuracy"],
    )
    return model, _following()


@script(gathers="GatherV2")
def relative_buckets_and_masked_words() -> Training:
    class Masking(OwnLoss):
        def __init__(self) -> None:
            super().__init__()
            self.generator = keras.random.SeedGenerator(4)
            self.words = layers.Embedding(WORDS + 1, WIDTH)
            self.bias = layers.Embedding(5, 2)
            self.qkv, self.out = layers.Dense(3 * WIDTH), layers.Dense(WORDS)

        def call(self, words: Any) -> Any:
            x = self.words(words)
            length = tf.shape(words)[1]
            apart = tf.range(length)[None] - tf.range(length)[:, None]
            bucket = tf.clip_by_value(apart, -2, 2) + 2
            q, k, v = tf.split(self.qkv(x), 3, -1)
            q, k, v = (tf.reshape(t, [-1, length, 2, WIDTH // 2]) for t in (q, k, v))
            scores = tf.einsum("nqhd,nkhd->nhqk", q, k)
            scores += tf.transpose(self.bias(bucket), [2, 0, 1])[None]
            scores += -1e9 * tf.cast(words == 0, tf.float32)[:, None, None]
            x = tf.einsum("nhqk,nkhd->nqhd", tf.nn.softmax(scores), v)
            return self.out(tf.reshape(x, [-1, length, WIDTH]))

        def loss_of(self, words: Any, training: bool) -> tuple[Any, dict[str, Any]]:
            draw = keras.random.uniform(tf.shape(words), seed=self.generator)
            hidden = (draw < 0.4) & (words > 0)
            kind = keras.random.uniform(tf.shape(words), seed=self.generator)
            other = keras.random.randint(tf.shape(words), 1, WORDS, seed=self.generator)
            shown = tf.where(kind < 0.8, WORDS, tf.where(kind < 0.9, other, words))
            logits = self(tf.where(hidden, shown, words))
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(words, logits)
            chosen_losses = tf.boolean_mask(losses, hidden)
            right = tf.equal(tf.argmax(logits, -1, tf.int32), words)
            accuracy = tf.reduce_mean(tf.cast(tf.boolean_mask(right, hidden), tf.float32))
            return tf.reduce_mean(chosen_losses), {"accuracy": accuracy}

    model = Masking()
    model.compile(optimizer=keras.optimizers.Adam(0.01))
    return model, fitted(_sentences())
