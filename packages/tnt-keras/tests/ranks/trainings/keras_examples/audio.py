"""Audio: speakers and speech."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from serial_comparison import Values

from .registry import example
from .samples import BATCH_SIZE, EPOCHS, NUM_SAMPLES, adam, labels, numbers, shown


@example("audio", "speakers by the Fourier transform of their voice, in the dataset")
def speakers(tnt: Any) -> Values:
    def spectrum(audio: Any, label: Any) -> Any:
        frequencies = tf.signal.fft(tf.cast(audio, tf.complex64))
        return tf.abs(frequencies)[:, :8, None], label

    dataset = tf.data.Dataset.from_tensor_slices((numbers(16), labels()))
    dataset = dataset.shuffle(NUM_SAMPLES, seed=2).batch(BATCH_SIZE)
    dataset = dataset.map(spectrum, num_parallel_calls=tf.data.AUTOTUNE).prefetch(1)
    inputs = keras.Input((8, 1))
    x = layers.Conv1D(3, 3, padding="same", activation="relu")(inputs)
    x = layers.add([layers.Conv1D(3, 3, padding="same")(x), layers.Conv1D(3, 1)(inputs)])
    x = layers.Flatten()(layers.AveragePooling1D(2)(layers.ReLU()(x)))
    model = keras.Model(inputs, layers.Dense(3, activation="softmax")(x))
    model = tnt.Model(model)
    model.compile(adam(), "sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(dataset, epochs=EPOCHS, validation_data=dataset, verbose=0)
    return shown(model, history=history)


@example("audio", "speech recognition: spectrogram, recurrent layers, CTC, padded texts")
def speech_recognition(tnt: Any) -> Values:
    def spectrogram(wave: Any, text: Any) -> Any:
        parts = tf.signal.stft(wave, frame_length=8, frame_step=4, fft_length=8)
        return tf.sqrt(tf.abs(parts)), text

    generator = np.random.default_rng(6)
    texts = [generator.integers(1, 5, generator.integers(1, 4)).tolist() for _ in labels()]
    padded = keras.utils.pad_sequences(texts, padding="post", maxlen=3)
    dataset = tf.data.Dataset.from_tensor_slices((numbers(40), padded))
    dataset = dataset.map(spectrogram).padded_batch(BATCH_SIZE)
    inputs = keras.Input((None, 5))
    x = layers.Bidirectional(layers.GRU(3, return_sequences=True))(inputs)
    model = keras.Model(inputs, layers.Dense(5)(layers.Dense(4, activation="relu")(x)))
    model = tnt.Model(model)
    model.compile(adam(), keras.losses.CTC())
    history = model.fit(dataset, epochs=EPOCHS, verbose=0)
    heard = np.argmax(model.predict(dataset, verbose=0), axis=-1)
    return shown(model, history=history, heard=heard)
