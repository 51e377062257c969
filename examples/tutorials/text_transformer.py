"""Train a Transformer encoder that tells whether a review is good or bad."""

import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers

import tarantella as tnt

keras.utils.set_random_seed(1)
LENGTH, WIDTH = 16, 32

THINGS = ["film", "plot", "cast", "music", "ending", "script", "camera", "humour"]
GOOD = ["great", "lovely", "clever", "moving", "funny", "superb"]
BAD = ["dull", "weak", "boring", "clumsy", "loud", "awful"]
PADDING = ["i", "think", "that", "honestly", "well", "really", "perhaps"]


def write_review(random):
    """A sentence of random length, and 1 if it says something good: `not dull` is good."""
    is_good, is_negated = random.integers(2, size=2)
    word = random.choice(GOOD if is_good != is_negated else BAD)
    middle = ["is", "not", word] if is_negated else ["is", word]
    before = random.choice(PADDING, random.integers(0, 6))
    after = random.choice(PADDING, random.integers(0, 6))
    return " ".join([*before, "the", random.choice(THINGS), *middle, *after]), is_good


def make_reviews(count):
    random = np.random.default_rng(count)
    texts, labels = zip(*(write_review(random) for _ in range(count)), strict=True)
    return np.array(texts), np.array(labels)


@keras.saving.register_keras_serializable("tutorial")
class TokensAndPositions(layers.Layer):
    """Embeds each word and its place; places after the end of a text are masked."""

    def __init__(self, vocabulary_size, **options):
        super().__init__(**options)
        self.supports_masking = True
        self.words = layers.Embedding(vocabulary_size, WIDTH, mask_zero=True)
        self.places = layers.Embedding(LENGTH, WIDTH)

    def call(self, tokens):
        return self.words(tokens) + self.places(keras.ops.arange(LENGTH))

    def compute_mask(self, tokens, mask=None):
        return self.words.compute_mask(tokens)


def encode(hidden):
    """One encoder block: attention, then two dense layers; each adds to its input."""
    normed = layers.LayerNormalization()(hidden)
    attended = layers.MultiHeadAttention(4, WIDTH // 4, dropout=0.1)(normed, normed)
    hidden = layers.Add()([hidden, attended])
    normed = layers.LayerNormalization()(hidden)
    dense = layers.Dense(WIDTH)(layers.Dense(2 * WIDTH, activation="gelu")(normed))
    return layers.Add()([hidden, layers.Dropout(0.1)(dense)])


texts, labels = make_reviews(1000)
to_tokens = layers.TextVectorization(output_sequence_length=LENGTH)
to_tokens.adapt(texts)


def batches_of(texts, labels):
    dataset = tf.data.Dataset.from_tensor_slices((texts, labels))
    dataset = dataset.shuffle(len(texts), seed=1)
    dataset = dataset.map(lambda text, label: (to_tokens(text), label))
    return dataset.batch(60)


tokens = keras.Input((LENGTH,), dtype="int64")
hidden = TokensAndPositions(to_tokens.vocabulary_size())(tokens)
hidden = encode(encode(hidden))
hidden = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(hidden))
model = keras.Model(tokens, layers.Dense(1)(hidden))
model = tnt.Model(model)
model.compile(
    optimizer=keras.optimizers.AdamW(2e-3),
    loss=keras.losses.BinaryCrossentropy(from_logits=True),
    metrics=[keras.metrics.BinaryAccuracy(threshold=0.0)],
)
validation = batches_of(*make_reviews(300))
model.fit(
    batches_of(texts, labels),
    epochs=8,
    validation_data=validation,
    callbacks=[keras.callbacks.CSVLogger(sys.argv[1])],
    verbose=2,
)
loss, accuracy = model.evaluate(validation, verbose=0)
print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")

reviews = np.array(["well the plot is not dull", "the music is not great i think"])
for review, logit in zip(reviews, model.predict(to_tokens(reviews), verbose=0)[:, 0], strict=True):
    print(f"{review}: {'good' if logit > 0 else 'bad'}")
