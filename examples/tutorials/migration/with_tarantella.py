"""Train a classifier of digits with Tarantella."""

import keras
import tensorflow as tf
from keras import layers
from sklearn.datasets import load_digits

import tarantella as tnt

keras.utils.set_random_seed(1)

digits = load_digits()
data = tf.data.Dataset.from_tensor_slices((digits.data / 16, digits.target))
training = data.take(1500).shuffle(1500, seed=1).batch(60)
validation = data.skip(1500).batch(99)

model = keras.Sequential(
    [keras.Input((64,)), layers.Dense(64, activation="gelu"), layers.Dense(10)]
)
model = tnt.Model(model)
model.compile(
    optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

callbacks = [keras.callbacks.ModelCheckpoint("logs/digits.keras")]
model.fit(training, epochs=4, callbacks=callbacks, verbose=2)

loss, accuracy = model.evaluate(validation, verbose=0)
print(f"validation loss {loss:.4f}, accuracy {accuracy:.4f}")
