"""Text: classification, translation, tagging, language models."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, FIT, NUM_SAMPLES, adam, labels, shown, texts, tokens

VOCABULARY = 12


@example("text", "text classification from scratch: TextVectorization in the dataset")
def text_from_scratch(tnt: Any) -> Values:
    vectorize = layers.TextVectorization(VOCABULARY, output_sequence_length=5)
    vectorize.adapt(texts())
    dataset = tf.data.Dataset.from_tensor_slices((texts(), labels(2)))
    dataset = dataset.shuffle(NUM_SAMPLES, seed=1).batch(BATCH_SIZE)
    dataset = dataset.map(lambda text, label: (vectorize(text), label)).cache().prefetch(2)
    model = keras.Sequential(
        [
            keras.Input((None,), dtype="int64"),
            layers.Embedding(VOCABULARY, 4),
            layers.Dropout(0.5),
            layers.Conv1D(4, 3, padding="valid", activation="relu"),
            layers.GlobalMaxPooling1D(),
            layers.Dense(1, activation="sigmoid"),
        ]
    )
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=["accuracy"])
    history = model.fit(dataset, epochs=EPOCHS, verbose=0)
    return shown(model, history=history, score=model.evaluate(dataset, verbose=0))


@example("text", "bidirectional LSTM on reviews, padding masked")
def bidirectional_lstm(tnt: Any) -> Values:
    inputs = keras.Input((None,), dtype="int32")
    x = layers.Embedding(VOCABULARY, 4, mask_zero=True)(inputs)
    x = layers.Bidirectional(layers.LSTM(3, return_sequences=True))(x)
    x = layers.Bidirectional(layers.LSTM(3))(x)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    model = tnt.Model(model)
    model.compile(adam(), "binary_crossentropy", metrics=["accuracy", "auc"])
    y = labels(2).astype("float32")[:, None]
    history = model.fit(tokens(), y, validation_data=(tokens(seed=5)[:7], y[:7]), **FIT)
    return shown(model, history=history, predictions=model.predict(tokens(), verbose=0))


class TransformerBlock(layers.Layer):
    """Attention and a feed-forward network, with the sum of each and its input normalised."""

    def __init__(self, width: int, *, causal: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(2, width // 2)
        self.dense = keras.Sequential([layers.Dense(2 * width, "relu"), layers.Dense(width)])
        self.norms = [layers.LayerNormalization() for _ in range(2)]
        self.dropout = layers.Dropout(0.1)
        self.causal = causal

    def call(self, x: Any, training: bool = False) -> Any:
        attended = self.dropout(
            self.attention(x, x, use_causal_mask=self.causal), training=training
        )
        x = self.norms[0](x + attended)
        return self.norms[1](x + self.dense(x))


class TokensAndPositions(layers.Layer):
    """The sum of embeddings of tokens and of their positions."""

    def __init__(self, length: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tokens = layers.Embedding(VOCABULARY + 1, width)
        self.positions = layers.Embedding(length, width)

    def call(self, x: Any) -> Any:
        return self.tokens(x) + self.positions(keras.ops.arange(keras.ops.shape(x)[-1]))


@example("text", "classification with a Transformer block")
def transformer_classifier(tnt: Any) -> Values:
    inputs = keras.Input((6,), dtype="int32")
    x = TransformerBlock(4)(TokensAndPositions(6, 4)(inputs))
    x = layers.Dense(4, activation="relu")(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(inputs, layers.Dense(2, activation="softmax")(x))
    model = tnt.Model(model)
    model.compile(adam(), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return shown(model, history=model.fit(tokens(), labels(2), **FIT))


@example("text", "addition of numbers as texts, one letter at a time (seq2seq RNN)")
def addition_of_texts(tnt: Any) -> Values:
    numbers = np.random.default_rng(1).integers(0, 50, (NUM_SAMPLES, 2))
    sums = [f"{a}+{b}".ljust(5) for a, b in numbers], [str(a + b).ljust(2) for a, b in numbers]
    letters = "0123456789+ "
    x, y = (
        np.array([np.eye(12)[[letters.index(each) for each in text]] for text in of_kind])
        for of_kind in sums
    )
    model = keras.Sequential(
        [
            keras.Input((5, 12)),
            layers.LSTM(6),
            layers.RepeatVector(2),
            layers.LSTM(6, return_sequences=True),
            layers.Dense(12, activation="softmax"),
        ]
    )
    model = tnt.Model(model)
    model.compile(adam(), "categorical_crossentropy", metrics=["accuracy"])
    losses, guesses = [], []
    for _ in range(2):
        history = model.fit(x, y, validation_split=0.2, **FIT)
        losses += history.history["loss"]
        best = np.argmax(model.predict(x, verbose=0), axis=-1)
        guesses += ["".join(letters[each] for each in of_sample) for of_sample in best]
    return shown(model, losses=losses, guesses=guesses)


@example("text", "translation by an encoder and decoder of attention, padding masked")
def translation(tnt: Any) -> Values:
    source, target = (keras.Input((None,), dtype="int32", name=name) for name in ("from", "into"))
    encoded = layers.Embedding(VOCABULARY, 4, mask_zero=True)(source)
    encoded = layers.LayerNormalization()(
        encoded + layers.MultiHeadAttention(1, 4)(encoded, encoded)
    )
    decoded = layers.Embedding(VOCABULARY, 4, mask_zero=True)(target)
    decoded = layers.LayerNormalization()(
        decoded + layers.MultiHeadAttention(1, 4)(decoded, decoded, use_causal_mask=True)
    )
    decoded = layers.LayerNormalization()(
        decoded + layers.MultiHeadAttention(1, 4)(decoded, encoded)
    )
    outputs = layers.Dense(VOCABULARY, activation="softmax")(decoded)
    model = keras.Model({"from": source, "into": target}, outputs)
    model = tnt.Model(model)
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=0)
    model.compile(adam(), loss, weighted_metrics=["accuracy"])
    into = tokens(7, seed=6)
    dataset = tf.data.Dataset.from_tensor_slices(
        ({"from": tokens(5), "into": into[:, :-1]}, into[:, 1:])
    )
    history = model.fit(dataset.batch(BATCH_SIZE), epochs=EPOCHS, verbose=0)
    return shown(model, history=history)


@example("text", "masked language model: weights choose the hidden tokens")
def masked_language_model(tnt: Any) -> Values:
    class MaskedModel(keras.Model):
        loss_fn = keras.losses.SparseCategoricalCrossentropy(reduction=None)
        tracker = keras.metrics.Mean(name="loss")

        def train_step(self, data: Any) -> dict[str, Any]:
            features, targets, weights = data
            with tf.GradientTape() as tape:
                predictions = self(features, training=True)
                loss = self.loss_fn(targets, predictions, sample_weight=weights)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.tracker.update_state(loss, sample_weight=weights)
            return {"loss": self.tracker.result()}

        @property
        def metrics(self) -> list[Any]:
            return [self.tracker]

    generator = np.random.default_rng(4)
    words = generator.integers(1, VOCABULARY, (NUM_SAMPLES, 6)).astype("int32")
    is_hidden = generator.uniform(size=words.shape) < 0.3
    hidden = np.where(is_hidden, VOCABULARY, words).astype("int32")
    inputs = keras.Input((6,), dtype="int32")
    x = TransformerBlock(4)(TokensAndPositions(6, 4)(inputs))
    model = MaskedModel(inputs, layers.Dense(VOCABULARY, activation="softmax")(x))
    model = tnt.Model(model)
    model.compile(adam())
    dataset = tf.data.Dataset.from_tensor_slices((hidden, words, is_hidden.astype("float32")))
    history = model.fit(dataset.batch(BATCH_SIZE), epochs=EPOCHS, verbose=0)
    return shown(model, history=history, predictions=model.predict(hidden, verbose=0))


@example("text", "named entities: a label for each token, padded positions ignored by the loss")
def named_entities(tnt: Any) -> Values:
    class IgnorePadding(keras.losses.Loss):
        def call(self, y_true: Any, y_pred: Any) -> Any:
            losses = keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)
            mask = tf.cast(y_true > 0, losses.dtype)
            return tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)

    inputs = keras.Input((6,), dtype="int32")
    x = TransformerBlock(4)(TokensAndPositions(6, 4)(inputs))
    model = keras.Model(inputs, layers.Dense(4)(layers.Dropout(0.1)(x)))
    model = tnt.Model(model)
    model.compile(adam(), IgnorePadding())
    words = tokens()
    history = model.fit(words, np.where(words > 0, 1 + words % 3, 0), **FIT)
    return shown(model, history=history, tags=np.argmax(model.predict(words, verbose=0), -1))


@example("text", "miniature GPT with a callback that writes text after each epoch")
def text_generation(tnt: Any) -> Values:
    class Writer(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.texts: list[list[int]] = []

        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            text = [1, 2]
            while len(text) < 6:
                padded = np.array([text + [0] * (6 - len(text))])
                text.append(int(np.argmax(self.model.predict(padded, verbose=0)[0, len(text) - 1])))
            self.texts.append(text)

    inputs = keras.Input((6,), dtype="int32")
    x = TransformerBlock(4, causal=True)(TokensAndPositions(6, 4)(inputs))
    model = keras.Model(inputs, layers.Dense(VOCABULARY)(x))
    model = tnt.Model(model)
    model.compile(adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    words = tokens(7)
    writer = Writer()
    history = model.fit(words[:, :-1], words[:, 1:], callbacks=[writer], **FIT)
    return shown(model, history=history, texts=writer.texts)


@example("text", "letters by an LSTM, drawn with a temperature after training")
def letters_by_lstm(tnt: Any) -> Values:
    text = "to be or not to be that is the question whether"
    letters = sorted(set(text))
    windows = [text[start : start + 6] for start in range(0, 2 * NUM_SAMPLES, 2)]
    one_hot = np.eye(len(letters), dtype="float32")
    x = np.array([one_hot[[letters.index(each) for each in of_one]] for of_one in windows])
    first, last = x[:, :-1], x[:, -1]
    model = keras.Sequential([keras.Input(first.shape[1:]), layers.LSTM(6)])
    model.add(layers.Dense(len(letters), activation="softmax"))
    model = tnt.Model(model)
    model.compile(keras.optimizers.RMSprop(0.01, epsilon=1e-3), "categorical_crossentropy")
    history = model.fit(first, last, **FIT)
    generator = np.random.default_rng(2)
    window, written = first[:1], ""
    for _ in range(8):
        probabilities = model.predict(window, verbose=0)[0].astype("float64") ** 2
        drawn = generator.choice(len(letters), p=probabilities / probabilities.sum())
        written += letters[drawn]
        window = np.concatenate([window[:, 1:], one_hot[None, None, drawn]], axis=1)
    return shown(model, history=history, written=[written])


@example("text", "similarity of sentences: bags of words, cosine of two encoders")
def similar_sentences(tnt: Any) -> Values:
    vectorize = layers.TextVectorization(
        VOCABULARY, output_mode="multi_hot", pad_to_max_tokens=True
    )
    vectorize.adapt(texts())
    encoder = keras.Sequential([keras.Input((VOCABULARY,)), layers.Dense(4)])
    first, second = (keras.Input((VOCABULARY,)) for _ in range(2))
    cosine = layers.Dot(axes=1, normalize=True)([encoder(first), encoder(second)])
    model = keras.Model([first, second], cosine)
    model = tnt.Model(model)
    model.compile(adam(), "mse", metrics=[keras.metrics.PearsonCorrelation()])
    words = np.asarray(vectorize(tf.constant(texts())), "float32")
    close = (labels(2) * 2 - 1).astype("float32")[:, None]
    history = model.fit([words, words[::-1]], close, **FIT)
    return shown(model, history=history)
